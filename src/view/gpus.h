// SPDX-License-Identifier: Apache-2.0
// The leased GPUs as a job's node shows them, from the lease file.
//
// The job's user owns that file and may have written anything into it, while root may be who reads
// it. So it is read with limits, and what comes out is safe to print into files that programs
// parse: it never names a path.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "util/result.h"

namespace rgpu::view {

struct Gpu {
    std::string uuid, name;   // printable ASCII, at most 95 characters
    std::string pci;          // util/pci_address.h
    std::string server = {};  // its name; as uuid
    bool nccl = false;        // the server's NCCL may be used
};

// As many as a lease has at most.
inline constexpr size_t kMostGpus = 512;

// Fails where the file cannot be read, is no lease file, or names no GPU or too many.
Result<std::vector<Gpu>> read_gpus(const std::string &lease_path);

// Variables of an environment: names and values.
using Variables = std::vector<std::pair<std::string, std::string>>;

// What scripts are told of their GPUs, without a secret: RGPU_GPUS (how many), RGPU_GPU_UUIDS (with
// commas, in the order in which programs number them) and RGPU_SERVERS.
Variables gpu_variables(const std::vector<Gpu> &gpus);

}  // namespace rgpu::view
