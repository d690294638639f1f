// The lease file that srun's prolog or `rgpu run` wrote: where to connect, and with which secret.
// Its format is in doc/architecture.md.
#pragma once

#include <string>
#include <vector>

#include "util/result.h"

namespace rgpu::interpose {

struct LeaseServer {
    std::string name;
    std::string address;  // host:port of the data port
    std::string lease;
    std::string secret;             // raw bytes
    std::vector<std::string> gpus;  // their UUIDs, in the lease's order
};

// Reads the file. Errors name the file, what is wrong and what to do.
Result<std::vector<LeaseServer>> read_lease(const std::string &path);

// Tells the user why the program does not go on: the server refuses connections, and is tried
// again.
void say_waiting(const LeaseServer &);

}  // namespace rgpu::interpose
