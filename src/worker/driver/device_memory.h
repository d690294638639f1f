// SPDX-License-Identifier: Apache-2.0
// Which addresses the driver knows as memory of a GPU. All such memory in this process is its one
// client's. Any thread.
#pragma once

#include <cstdint>
#include <optional>

namespace rgpu::worker {

// The end of the GPU memory around an address.
std::optional<uint64_t> end_of_device_memory(uint64_t address);

// Whether all these bytes are memory of a GPU.
bool is_device_memory(uint64_t address, uint64_t bytes);

}  // namespace rgpu::worker
