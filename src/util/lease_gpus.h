// SPDX-License-Identifier: Apache-2.0
// The GPUs that a lease file names (its format: doc/architecture.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "util/json_reader.h"
#include "util/pci_address.h"

namespace rgpu {

struct LeaseGpu {
    std::string uuid, name;
    ServerGpu place;
    size_t server = 0;    // the server's number in the file, from 0 on
    uint64_t memory = 0;  // the lease's cap in bytes; 0: it names none
    bool nccl = false;    // its server's NCCL may be used
};

// In the lease's order, as they stand there; none where it is no lease file. The user owns such a
// file: nothing in it is checked, but that an index is a number below 65536,
// and a cap one above 0.
std::vector<LeaseGpu> lease_gpus(const Json &lease);

}  // namespace rgpu
