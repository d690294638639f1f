// SPDX-License-Identifier: Apache-2.0
// What is in a worker's own /dev, which the spawner makes: the files that every program needs, and
// those of its lease's GPUs.
#pragma once

#include <string>
#include <vector>

namespace rgpu::serverd {

// The names below /dev that workers of this driver need for these GPUs; only such as exist.
// NVIDIA's driver tells in PROC/gpus/*/information which nvidiaN is whose (Documentation of the
// Linux driver, "The /proc interface"); where it does not say so of one, all of them are named.
std::vector<std::string> device_names(bool software, const std::vector<std::string> &uuids,
                                      const std::string &dev = "/dev",
                                      const std::string &proc = "/proc/driver/nvidia");

}  // namespace rgpu::serverd
