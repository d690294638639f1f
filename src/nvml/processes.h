// SPDX-License-Identifier: Apache-2.0
// The processes of this node that use the lease's GPUs.
#pragma once

#include <string>
#include <vector>

#include "nvml/pool.h"

namespace rgpu::nvml {

struct Process {
    unsigned pid = 0;         // as this process sees it
    uint64_t memory = ~0ull;  // bytes on the device; NVML_VALUE_NOT_AVAILABLE where not known
};

// Those that see the device: of this lease, and connected to its server. Others' that this user may
// not look at are left out. All GPUs of the pool, for those of CUDA_VISIBLE_DEVICES.
std::vector<Process> processes_on(const Pool &pool, const Device &device);

}  // namespace rgpu::nvml
