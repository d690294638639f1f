// SPDX-License-Identifier: Apache-2.0
#include "spawner/cgroup.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>

namespace rgpu::spawner {
namespace {

std::map<pid_t, Fd> listed(const std::string &directory)
{
    std::map<pid_t, Fd> all;
    std::ifstream file(directory + "/cgroup.procs");
    for (pid_t pid; file >> pid;) all[pid] = Fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    return all;
}

}  // namespace

Cgroup::Cgroup(const Settings &settings, const std::string &key)
    : first_(std::string(settings.cgroups[0]) + "/" + key)
{
    if (settings.v2) into_.reset(open(first_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    for (const char *base : settings.cgroups) {
        const std::string door = std::string(base) + "/" + key + "/cgroup.procs";
        if (Fd file(*base ? open(door.c_str(), O_WRONLY | O_CLOEXEC) : -1); file)
            doors_.push_back(std::move(file));
    }
}

pid_t Cgroup::fork() const
{
    clone_args how{};
    how.flags = CLONE_INTO_CGROUP;
    how.exit_signal = SIGCHLD;
    how.cgroup = static_cast<uint64_t>(into_.get());
    long pid = into_ ? syscall(SYS_clone3, &how, sizeof how) : -1;
    if (pid >= 0) return static_cast<pid_t>(pid);
    // v1, or Linux before 5.7.
    pid = ::fork();
    if (pid != 0 || std::all_of(doors_.begin(), doors_.end(),
                                [](const Fd &door) { return write(door.get(), "0", 1) == 1; }))
        return static_cast<pid_t>(pid);
    dprintf(2, "rgpu-spawner: a worker cannot enter %s: %m\n", first_.c_str());
    _exit(127);
}

bool Cgroup::kill() const
{
    const std::map<pid_t, Fd> open = doors_.empty() ? std::map<pid_t, Fd>() : listed(first_);
    // Only what is still there: another may have got such a pid before it was opened.
    if (!open.empty())
        for (const auto &[pid, again] : listed(first_))
            if (const auto found = open.find(pid); found != open.end())
                syscall(SYS_pidfd_send_signal, found->second.get(), SIGKILL, nullptr, 0);
    return !open.empty();
}

}  // namespace rgpu::spawner
