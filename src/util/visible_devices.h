// SPDX-License-Identifier: Apache-2.0
// CUDA_VISIBLE_DEVICES, as the driver reads it.
#pragma once

#include <string>
#include <vector>

namespace rgpu {

// Which devices are seen, in which order: positions in `uuids`, the devices' names ("GPU-...").
// Null: all. The list ends at the first item that names no device, or one named before.
std::vector<int> visible_devices(const char *list, const std::vector<std::string> &uuids);

}  // namespace rgpu
