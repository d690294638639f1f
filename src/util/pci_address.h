// SPDX-License-Identifier: Apache-2.0
// The PCI addresses that leased GPUs have for their job: in libcuda.so.1, NVML and /sys alike.
//
// Servers number their GPUs each by itself, and so does the node. So a leased GPU's address says
// which server it is of (the domain) and which GPU there (the bus). Two GPUs of a lease never have
// the same one, and the same GPU has the same address in every lease but for rare collisions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rgpu {

struct ServerGpu {
    std::string server;  // its name in the lease
    int index = -1;      // the GPU's number there; -1: not known
};

// "7c2f:01:00.0" for each GPU of a lease, in its order: as cuDeviceGetPCIBusId prints it.
std::vector<std::string> pci_addresses(const std::vector<ServerGpu> &gpus);

// Whether an address, or the number of a bus ("7c2f:01"), is in a domain of leased GPUs.
bool is_leased_address(std::string_view address);

}  // namespace rgpu
