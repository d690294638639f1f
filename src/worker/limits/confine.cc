// SPDX-License-Identifier: Apache-2.0
// The filters are made when rgpu is built (worker/filter/).
#include "worker/limits/confine.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "util/child.h"
#include "util/fd.h"
#include "worker/filter/own_pid.h"

namespace rgpu::worker {

namespace {

#include "worker_filters.inc"

using Steps = std::span<const sock_filter>;

// What deny_sockets() still has to install: set by confine().
Steps to_come;

// `flags`: SECCOMP_FILTER_FLAG_ (seccomp(2)).
Result<void> install(Steps filter, unsigned flags)
{
    std::vector<sock_filter> steps(filter.begin(), filter.end());
    for (sock_filter &step : steps)
        if (BPF_CLASS(step.code) == BPF_JMP && step.k == serverd::kOwnPid)
            step.k = static_cast<uint32_t>(getpid());
    const sock_fprog program{static_cast<unsigned short>(steps.size()), steps.data()};
    // More than 0: the thread that cannot have it.
    const long r = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
    if (r)
        return error(ErrorKind::unsupported, "no system call filter: %s",
                     strerror(r < 0 ? errno : ESRCH));
    return {};
}

// The client's connection is a TCP socket, which connect(2) to AF_UNSPEC makes a fresh one: it must
// reach no service of this host, nor take the port of one. NVIDIA's driver needs Unix sockets, so
// Landlock tells them apart. landlock(7); Linux has these rules since 6.7, and older headers lack
// them.
void deny_tcp()
{
    constexpr long kCreateRuleset = 444, kRestrictSelf = 446;
    constexpr uint64_t kBind = 1 << 0, kConnect = 1 << 1;  // LANDLOCK_ACCESS_NET_..._TCP
    const struct {
        uint64_t files, net;
    } handled{0, kBind | kConnect};
    const Fd rules(static_cast<int>(syscall(kCreateRuleset, &handled, sizeof handled, 0)));
    if (rules) syscall(kRestrictSelf, rules.get(), 0);
}

}  // namespace

Result<void> confine(Filter filter, Sockets sockets)
{
    // A worker of root's own lease (worker_user = "root") is root without root's rights.
    if (!drop_capabilities())
        return error(ErrorKind::internal, "cannot give up privileges: %s", strerror(errno));
    const bool for_nccl = sockets == Sockets::nccl ||
                          sockets == Sockets::ucx_until_connected_and_nccl;
    const bool for_ucx = sockets == Sockets::until_connected ||
                         sockets == Sockets::ucx_until_connected_and_nccl;
    to_come = !for_ucx ? Steps() : for_nccl ? Steps(kOtherFamilies) : Steps(kSockets);
    // The software GPU's filter denies all of connect(2), and its workers look into each other's
    // shared files (/proc/PID/fd), which Landlock denies, too.
    if (!for_ucx && !for_nccl && filter != Filter::software) deny_tcp();
    if (auto quiet = install(kQuiet, 0); !quiet) return quiet;
    if (filter == Filter::software) {
        const bool connects = sockets == Sockets::connect_until_connected;
        if (connects) to_come = kConnect;
        return install(for_ucx    ? Steps(kSoftwareButSockets)
                       : for_nccl ? Steps(kSoftwareAndNccl)
                       : connects ? Steps(kSoftwareButConnect)
                                  : Steps(kSoftware),
                       SECCOMP_FILTER_FLAG_LOG);
    }
    if (filter == Filter::logs)
        if (auto logs = install(kNotListed, 0); !logs) return logs;
    return install(for_ucx    ? Steps(kAllButSockets)
                   : for_nccl ? Steps(kAllButNccl)
                              : Steps(kAll),
                   SECCOMP_FILTER_FLAG_LOG);
}

Result<void> deny_sockets()
{
    const Steps steps = std::exchange(to_come, {});
    return steps.empty() ? Result<void>()
                         : install(steps, SECCOMP_FILTER_FLAG_LOG | SECCOMP_FILTER_FLAG_TSYNC);
}

}  // namespace rgpu::worker
