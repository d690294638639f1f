// SPDX-License-Identifier: Apache-2.0
// Whether this host has a network that UCX is worth its while for: a device for RDMA (InfiniBand,
// RoCE) with a port that is up.
#pragma once

#include <string>

namespace rgpu::net {

// As the kernel says in SYS/*/ports/*/state (Documentation/ABI/stable/sysfs-class-infiniband), and
// this process may open a device in DEV.
bool has_rdma(const std::string &sys = "/sys/class/infiniband",
              const std::string &dev = "/dev/infiniband");

}  // namespace rgpu::net
