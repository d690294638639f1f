// SPDX-License-Identifier: Apache-2.0
// Makes a job look like a GPU node: device files, /proc/driver/nvidia and PCI devices of its leased
// GPUs, in the mount namespace of the calling process.
//
// A device file is the node's own /dev/null under another name: it is a character device that can
// be opened and does nothing. The node's own NVIDIA devices are not there, as the job's
// libcuda.so.1 and NVML know the leased GPUs only.
#pragma once

#include <string>
#include <vector>

#include "util/result.h"
#include "view/gpus.h"

namespace rgpu::view {

// "nvidiactl", "nvidia0" ...: the files in /dev for so many GPUs.
std::vector<std::string> device_names(size_t gpus);

// What follows where it cannot be done: the beginning of a sentence.
inline constexpr const char *kNotShown =
    "programs that look for device files before they use CUDA (JAX, hwloc) will find no GPU";

// For a process that may mount and shares its mounts with nobody (view/namespaces.h). `root` is
// the root directory of a container, whose links lead nowhere outside of it. After a failure all
// is as before.
Result<void> show(const std::vector<Gpu> &gpus, const std::string &root = "/");

}  // namespace rgpu::view
