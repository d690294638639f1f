// SPDX-License-Identifier: Apache-2.0
// The cgroups that hold workers: one for each job on this host, with limits of memory, of processes
// and threads, and of processors.
//
// What a host has decides the way, once: cgroups v2 where they are the unified hierarchy and have
// the controllers, else v1 controllers, else nothing but the limits of each process
// (util/child.h). Root finds it, and makes the directories that have our groups: below its own
// cgroup, so what holds for that one holds for all workers, and where PID 1 is systemd, its unit
// has Delegate=yes. These directories are rgpud's user's then, who makes and limits groups there.
// Groups outlive the process: open() and names() find them again.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "util/result.h"

namespace rgpu::serverd {

// What the workers of one job may take of a host together; 0 in any: no limit.
struct Limits {
    uint64_t memory;         // bytes of host memory, files of tmpfs and sockets' buffers included
    int64_t pids;            // processes and threads
    int64_t cpu_hundredths;  // at most so much of one processor: 150 is one and a half
    int64_t cpu_weight;  // 1 to 10000, 100 is usual: how groups divide processors that are short

    bool operator==(const Limits &) const = default;
};

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
    // Its processes, without those of groups below. Fails where the group is gone.
    Result<std::vector<pid_t>> pids() const;
    // No process is born in it any more, until limit() is called. On v2 since Linux 5.14 all that
    // are there end, too.
    void close() const;
    // Ends all of its processes, without regard to what they do: none can start another meanwhile.
    // They may still be about to end when it returns. For root.
    void kill() const;
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
    // What find() found, in another process.
    CgroupBase(std::vector<std::string> directories, bool v2);
    CgroupBase() = default;
    // Gives the directories to that user: not the files in them, which limit all workers together.
    Result<void> give(uid_t user) const;

    Way way() const { return way_; }
    const std::vector<std::string> &directories() const { return directories_; }
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

}  // namespace rgpu::serverd
