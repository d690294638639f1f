// SPDX-License-Identifier: Apache-2.0
// What rgpud tells a worker when it starts it: one struct, which travels as environment variables
// RGPU_WORKER_* and as descriptors at agreed numbers. worker_start.cc has both directions.
//
// A worker believes rgpud, but what it decodes is checked all the same: a value out of its range is
// an error that names the variable.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "util/result.h"

namespace rgpu::serverd {

// The descriptors that every worker of a lease has: the client's connection or the channel that it
// comes by (handover.h), the worker's control socket, and the lease's memory account
// (memory_account.h). The numbers of all others are in WorkerStart.
inline constexpr int kSocketDescriptor = 3, kControlDescriptor = 4, kAccountDescriptor = 5;
inline constexpr int kNoDescriptor = -1;

// The filter of system calls that a worker puts itself under (worker/limits/confine.h).
enum class Confinement { by_name, none, software, log };

// What a lease may have of a GPU's time, in hundredths.
struct GpuShare {
    int32_t least = 100, most = 100;
    bool operator==(const GpuShare &) const = default;
};

struct WorkerStart {
    std::string lease, server;  // for messages; the lease's id, the server's name
    uint64_t number = 0;        // by which its client's lanes find it; not to be guessed
    uint64_t client_table = 0;  // digest of the client's call table; 0: the client comes later
    bool waits = false;         // for its client, on the channel
    bool takes_ucx = false;     // offers of UCX
    bool dumpable = false;      // other workers of its user may see its memory
    Confinement confinement = Confinement::by_name;

    // Of the GPUs that it sees, in their order. No caps: nothing is said about memory. No boards:
    // nothing is scheduled. Caps and shares are those of the start: from then on the scheduler says
    // what the lease may have (share/pages.h).
    std::vector<uint64_t> memory;  // caps in bytes
    std::vector<GpuShare> shares;
    std::vector<int> boards;       // descriptors: its places at the GPUs' schedulers (share/seat.h)
    std::vector<uint64_t> places;  // in the lease; none: they are all of its GPUs, in their order
    uint64_t lease_gpus = 0;       // how many the lease has, where `places` are some of them

    int64_t max_kernel = 0;  // milliseconds that a kernel may run; 0: no limit

    std::string images;        // the directory where module images are kept; empty: none are
    uint64_t image_bytes = 0;  // how much of them

    int meter = kNoDescriptor;  // counts what the lease uses (meter.h)
    int key = kNoDescriptor;    // a pipe with the key of an encrypted connection

    std::string nccl;            // the NCCL that it may open: a path, or auto; empty: none
    std::string nccl_interface;  // the network interfaces that it may use; empty: its own choice

    bool operator==(const WorkerStart &) const = default;
};

// The variables; none for what is as in an empty WorkerStart.
std::map<std::string, std::string> encode(const WorkerStart &);

// `get` is getenv(3), or stands in for it. Fails with `invalid`, naming the variable.
Result<WorkerStart> decode_worker_start(const std::function<const char *(const char *name)> &get);

// A worker's number as rgpud and lanes write it: 16 digits of hex.
std::string format_worker_number(uint64_t);

}  // namespace rgpu::serverd
