// SPDX-License-Identifier: Apache-2.0
// Whether a host has something of NVIDIA's: then software GPUs in the place of a driver that does
// not work would be a mistake.
#pragma once

#include <string>

namespace rgpu {

// What says so, for a person: "PCI device 0000:3b:00.0 is a GPU of NVIDIA's", "/dev/nvidiactl is
// there"; empty where nothing does. Paths of the system are below `root`.
std::string nvidia_sign(const std::string &root = {});

}  // namespace rgpu
