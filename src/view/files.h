// SPDX-License-Identifier: Apache-2.0
// What a node with NVIDIA's driver tells about its GPUs in /proc and /sys, for leased ones.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "view/gpus.h"

namespace rgpu::view {

struct File {
    std::string path;  // below the directory that the function names
    std::string text;
};

// Below /proc/driver: nvidia/version, nvidia/params and nvidia/gpus/ADDRESS/information.
std::vector<File> driver_files(const std::vector<Gpu> &gpus);

// Below /sys/bus/pci/devices: what programs read of each GPU. `numa_node` is what the kernel says
// of devices that are near all processors (-1), or the only node.
std::vector<File> pci_files(const std::vector<Gpu> &gpus, int numa_node);

// Below /sys/class/pci_bus: links (target as text), by which the path
// /sys/class/pci_bus/BUS/../../ADDRESS leads to the GPU, as it does for others.
std::vector<File> bus_links(const std::vector<Gpu> &gpus);

}  // namespace rgpu::view
