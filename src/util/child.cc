// SPDX-License-Identifier: Apache-2.0
#include "util/child.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace rgpu {
namespace {

bool lower(__rlimit_resource which, uint64_t value)
{
    rlimit now{};
    if (value == 0) return true;
    if (getrlimit(which, &now) != 0) return false;
    const rlimit wanted{std::min<rlim_t>(now.rlim_cur, value),
                        std::min<rlim_t>(now.rlim_max, value)};
    return setrlimit(which, &wanted) == 0;
}

}  // namespace

// First out of the way, above all that has a place: so none overwrites another.
bool place_descriptors(std::span<const int> given)
{
    int high[kMostPlaced];
    if (given.size() > kMostPlaced) return errno = EINVAL, false;
    for (size_t i = 0; i < given.size(); ++i)
        if ((high[i] = fcntl(given[i], F_DUPFD, static_cast<int>(kMostPlaced))) < 0) return false;
    for (size_t i = 0; i < given.size(); ++i)
        if (dup2(high[i], static_cast<int>(i)) < 0) return false;
    return close_range(static_cast<unsigned>(given.size()), ~0U, 0) == 0;
}

void default_signals()
{
    struct sigaction by_default {};
    for (int number = 1; number < NSIG; ++number)
        if (number != SIGKILL && number != SIGSTOP) sigaction(number, &by_default, nullptr);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
}

void set_processors(Processors &processors, const std::vector<int> &numbers)
{
    for (int n : numbers)
        if (n >= 0 && n < static_cast<int>(sizeof processors * 8))
            processors[n / 64] |= uint64_t{1} << n % 64;
}

void bind_to(const Processors &processors)
{
    static_assert(sizeof(cpu_set_t) == sizeof processors);
    cpu_set_t set;
    memcpy(&set, processors, sizeof set);
    if (CPU_COUNT(&set)) (void)sched_setaffinity(0, sizeof set, &set);
}

bool set_limits(const ProcessLimits &limits)
{
    return lower(RLIMIT_DATA, limits.data) && lower(RLIMIT_NPROC, limits.processes);
}

bool drop_capabilities()
{
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && syscall(SYS_capset, &header, none) == 0;
}

}  // namespace rgpu
