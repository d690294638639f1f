// The cgroups that hold workers: one for each job on this host, with limits of memory, of processes
// and threads, and of processors.
//
// What a host has decides the way, once: cgroups v2 where they are the unified hierarchy and have
// the controllers, else v1 controllers, else nothing but the limits of each process
// (set_rlimits()). Groups lie below the cgroup of the process that asks: what holds for that one
// holds for all workers, and where PID 1 is systemd, its unit has Delegate=yes. Groups outlive the
// process: open() and names() find them again.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "spawner/limits.h"
#include "util/fd.h"
#include "util/result.h"

namespace rgpu::spawner {

// For the calling process: RLIMIT_DATA and RLIMIT_NPROC, where there is no cgroup.
// Async-signal-safe: a child may call it between fork and exec.
bool set_rlimits(const Limits &limits);

class Cgroup {
public:
    // `directories`: one on v2; on v1 one a controller.
    Cgroup(std::vector<std::string> directories, bool v2)
        : directories_(std::move(directories)), v2_(v2)
    {}
    Cgroup() = default;

    // No directory: the host has no cgroups for us. Then all of these do nothing, and pids() is
    // empty.
    explicit operator bool() const { return !directories_.empty(); }

    // Changes the limits; those that are 0 stay as they are. Fails where one cannot be written; the
    // others are.
    Result<void> limit(const Limits &limits) const;
    // Moves a process, with its threads and without its children.
    Result<void> add(pid_t pid) const;
    // fork(2), with a child that is in the group from its start (`inside`) on v2 from Linux 5.7 on.
    // Elsewhere it goes through doors(). That costs up to 40 ms after a pause: the kernel waits for
    // all processors. For a process with one thread.
    pid_t fork(bool &inside) const;
    // What a process writes "0" to, to be in the group: a child may do so between fork and exec.
    Result<std::vector<Fd>> doors() const;
    // Its processes, without those of groups below. Fails where the group is gone.
    Result<std::vector<pid_t>> pids() const;
    // Ends all of its processes, without regard to what they do: none can start another meanwhile.
    // They may still be about to end when it returns.
    Result<void> kill() const;
    // Removes the group. Fails with `unavailable` while a process is in it.
    Result<void> remove() const;

private:
    std::vector<std::string> directories_;
    bool v2_ = false;
};

// Where a host's groups are, and how they are made.
class CgroupBase {
public:
    enum class Way { v2, v1, none };
    // `name` is the directory that has our groups. `root` and `self` are where the kernel has
    // cgroups, and tells those of this process. On v2 a group has groups or processes: this process
    // may move to a group beside ours, `kOwnGroup`.
    static CgroupBase find(const std::string &name = "rgpu-workers",
                           const std::string &root = "/sys/fs/cgroup",
                           const std::string &self = "/proc/self/cgroup");
    static constexpr const char *kOwnGroup =
        "spawner";  // as DelegateSubgroup= in rgpu-spawner.service

    Way way() const { return way_; }
    // One sentence for the log: the way, and why not a better one.
    const std::string &told() const { return told_; }

    // A new group, or the one of that name with these limits from now on. `name` is a file's name:
    // letters, digits, '-', '_'. Without cgroups: one that does nothing.
    Result<Cgroup> make(const std::string &name, const Limits &limits) const;
    Result<Cgroup> open(const std::string &name) const;
    // The directory of our groups, when there is none.
    void remove() const;
    // Of those that there are, made by an earlier process, too.
    std::vector<std::string> names() const;

private:
    bool find_v2(const std::string &name, const std::string &root, const std::string &own);
    bool find_v1(const std::string &name, const std::string &root, const std::string &self);

    std::vector<std::string> directories_;  // as Cgroup's
    Way way_ = Way::none;
    std::string told_;
};

}  // namespace rgpu::spawner
