// SPDX-License-Identifier: Apache-2.0
// The lease file that srun's prolog or `rgpu run` wrote: where to connect, and with which secret.
// The client's libraries read it here, each once. Its format is in doc/architecture.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "util/result.h"

namespace rgpu::interpose {

// A GPU as its lease has it.
struct LeasedGpu {
    std::string uuid;  // as nvidia-smi prints it
    std::string name;
    uint64_t memory = 0;  // the lease's cap, in bytes; 0: not known
    std::string pci;      // the address that programs see (util/pci_address.h)
};

struct LeaseServer {
    std::string name;
    std::string address;  // host:port of the data port
    std::string lease;
    std::string secret;           // raw bytes
    std::vector<LeasedGpu> gpus;  // in the lease's order
};

// Reads the file. Errors name the file, what is wrong and what to do.
Result<std::vector<LeaseServer>> read_lease(const std::string &path);

// Tells the user why the program does not go on: the server refuses connections, and is tried
// again.
void say_waiting(const LeaseServer &);

}  // namespace rgpu::interpose
