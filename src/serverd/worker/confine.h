// What a worker may ask of the kernel: what computing needs, and nothing that reaches other processes or other hosts.
#pragma once

#include "util/result.h"

namespace rgpu::worker {

// For good, in this process and all its threads; call it before the second thread. Sets no_new_privs, gives up root's capabilities, and
// installs a filter of system calls. From then on these fail with EPERM, and the kernel logs
// them (audit type 1326): starting programs and processes, ptrace and other processes' memory, signals to other processes, sockets
// other than AF_UNIX, mounts and namespaces, changing users, kernel modules, bpf, perf_event_open, keys, io_uring, clocks, swap, reboot.
// It denies what is named, and does not allow by name: NVIDIA's driver is not ours to list. Fails with `unsupported`
// where the kernel has no seccomp.
enum class Sockets { denied, until_settled };
Result<void> confine(Sockets = Sockets::denied);
// Sockets too, where confine() left them for UCX, which makes them up to when its endpoint stands: in all threads, once the client's first frame is
// dealt with. Does nothing elsewhere.
Result<void> deny_sockets();

}  // namespace rgpu::worker
