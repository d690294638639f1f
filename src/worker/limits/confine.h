// SPDX-License-Identifier: Apache-2.0
// What a worker may ask of the kernel: what computing needs, and nothing that reaches other
// processes or other hosts.
#pragma once

#include "util/result.h"

namespace rgpu::worker {

// What is denied fails with EPERM, and the kernel logs it (audit type 1326).
enum class Filter {
    // What is named: starting programs and processes, ptrace and other processes' memory, signals
    // to other processes, sockets other than AF_UNIX,
    // mounts and namespaces, changing users, kernel modules, bpf, perf_event_open, keys, io_uring,
    // clocks, swap, reboot. For NVIDIA's driver, which is not ours
    // to list.
    denies_by_name,
    // The same; and the kernel logs what `software` would deny, but for devices' own calls: to find
    // out what a driver needs.
    logs,
    // What is not named as what a software GPU needs.
    software,
};

// For good, in this process and all its threads; call it before the second thread. Sets
// no_new_privs, gives up root's capabilities, and installs a filter of system calls. Unless sockets
// are left for UCX, and where the kernel can, those that are there connect to no TCP port and bind
// none. Fails with `unsupported` where the kernel has no seccomp.
enum class Sockets {
    denied,
    connect_until_connected,  // a software GPU's worker may connect: to a client's shared memory
    until_connected,          // all, for UCX, which makes them up to when its endpoint stands
    nccl,  // TCP, Unix and netlink for good: NCCL meets other ranks whenever the program asks
    ucx_until_connected_and_nccl,
};
Result<void> confine(Filter, Sockets = Sockets::denied);
// What confine() has left until the client's first frame is dealt with, in all threads. Does
// nothing where it left nothing.
Result<void> deny_sockets();

}  // namespace rgpu::worker
