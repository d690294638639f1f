// SPDX-License-Identifier: Apache-2.0
// Cgroups of workers, each way: on this host's own where they can be written, and against a
// directory that looks like the kernel's.
#include "rgpud/workers/cgroup.h"

#include <criterion/criterion.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

using namespace rgpu;
using namespace rgpu::serverd;
namespace fs = std::filesystem;

namespace {

constexpr Limits kLimits{.memory = 64 << 20, .pids = 20, .cpu_hundredths = 150, .cpu_weight = 50};

std::string read(const fs::path &path)
{
    std::ifstream in(path);
    std::string text;
    std::getline(in, text);
    return text;
}

void put(const fs::path &path, const std::string &text = "")
{
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text << "\n";
}

struct Directory {
    fs::path path;
    Directory()
    {
        char name[] = "/tmp/cgroup_test.XXXXXX";
        path = mkdtemp(name);
    }
    ~Directory() { fs::remove_all(path); }
};

// What the kernel makes in a new group of v2.
void new_group(const fs::path &group)
{
    for (const char *file : {"memory.max", "pids.max", "cpu.max", "cpu.weight", "cgroup.procs",
                             "cgroup.kill", "cgroup.subtree_control"})
        put(group / file);
}

// A child that runs this; ended with the test's process.
pid_t child(const std::function<void()> &body)
{
    const pid_t pid = fork();
    if (pid == 0) {
        body();
        _exit(0);
    }
    return pid;
}

int ended_by(pid_t pid)
{
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

// The host's own, when it has that way and this process may write there.
CgroupBase of_this_host(CgroupBase::Way way, const char *name)
{
    CgroupBase base = CgroupBase::find("rgpu-cgroup-test");
    if (base.way() != way)
        cr_skip_test("%s needs a host with it, and root: %s", name, base.told().c_str());
    return base;
}

// The directory of our groups, in each hierarchy. Others' groups come and go meanwhile.
void remove_base()
{
    for (const char *controller : {"memory", "pids", "cpu", ""}) {
        std::error_code none;
        const fs::path root = fs::path("/sys/fs/cgroup") / controller;
        std::vector<fs::path> found;
        for (fs::recursive_directory_iterator at(root, none), end; !none && at != end;
             at.increment(none))
            if (at->path().filename() == "rgpu-cgroup-test") found.push_back(at->path());
        for (const fs::path &path : found) rmdir(path.c_str());
    }
}

// What a group of either way must do with real processes.
void try_group(CgroupBase &base)
{
    const std::string name = "job-" + std::to_string(getpid());
    Result<Cgroup> group = base.make(name, kLimits);
    cr_assert(group, "%s", group ? "" : group.error().text.c_str());
    const std::vector<std::string> names = base.names();
    cr_expect(std::find(names.begin(), names.end(), name) != names.end());

    // More processes than it may have: all but some forks fail, and the rest end with it.
    int ends[2];
    cr_assert(pipe(ends) == 0);
    const pid_t bomb = child([&] {
        char go;
        (void)!::read(ends[0], &go, 1);
        for (int i = 0; i < 100; ++i)
            if (const pid_t pid = fork(); pid == 0)
                for (;;) pause();
            else if (pid < 0)
                break;
        for (;;) pause();
    });
    cr_assert(group->add(bomb));
    (void)!write(ends[1], "x", 1);
    Result<std::vector<pid_t>> inside = group->pids();
    for (int i = 0; i < 500 && inside && inside->size() < 20; ++i, usleep(10'000))
        inside = group->pids();
    cr_expect(inside && inside->size() == 20, "%zu processes", inside ? inside->size() : 0);
    cr_expect_eq(group->remove().error().kind, ErrorKind::unavailable,
                 "what lives keeps its group");
    group->kill();
    cr_expect_eq(ended_by(bomb), SIGKILL);
    for (int i = 0; i < 500 && inside && !inside->empty(); ++i, usleep(10'000))
        inside = group->pids();
    cr_expect(inside && inside->empty());
    cr_expect(base.make(name, kLimits), "the same once more, after it was killed");

    // More memory than it may have.
    cr_assert(pipe(ends) == 0);
    const pid_t eater = child([&] {
        char go;
        (void)!::read(ends[0], &go, 1);
        for (size_t eaten = 0; eaten < size_t{256} << 20; eaten += 4096)
            *static_cast<volatile char *>(malloc(4096)) = 1;
    });
    cr_assert(group->add(eater));
    (void)!write(ends[1], "x", 1);
    cr_expect_eq(ended_by(eater), SIGKILL, "the kernel ends who takes more memory");

    Result<void> removed = group->remove();
    for (int i = 0; i < 500 && !removed; ++i, usleep(10'000)) removed = group->remove();
    cr_expect(removed);
    const Result<Cgroup> again = base.open(name);
    cr_expect(again && again->pids().error().kind == ErrorKind::invalid, "it is gone");
}

}  // namespace

Test(cgroup, v1_limits_what_is_in_it)
{
    CgroupBase base = of_this_host(CgroupBase::Way::v1, "v1");
    try_group(base);
    remove_base();
}

Test(cgroup, v2_limits_what_is_in_it)
{
    CgroupBase base = of_this_host(CgroupBase::Way::v2, "v2");
    try_group(base);
    remove_base();
}

// In a hierarchy that the test mounts, which may lack all controllers, as where they are v1's. What
// ends a group and finds its processes needs none.
Test(cgroup, v2_of_the_kernel_ends_what_is_in_a_group)
{
    const Directory root;
    if (unshare(CLONE_NEWNS) != 0 ||
        mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("none", root.path.c_str(), "cgroup2", 0, nullptr) != 0)
        cr_skip_test("mounting cgroup2 needs root, and a kernel with it: %s", strerror(errno));
    const fs::path ours = root.path / ("rgpu-cgroup-test-" + std::to_string(getpid()));
    if (mkdir(ours.c_str(), 0755) != 0) {
        umount(root.path.c_str());
        cr_skip_test("%s: %s", ours.c_str(), strerror(errno));
    }
    const CgroupBase base({ours}, true);
    Result<Cgroup> group = base.make("job", {}), other = base.make("other", {});
    cr_assert(group && other);
    // Members, one of them with a child in a session of its own; and one who is in no group.
    std::vector<pid_t> members;
    for (int i = 0; i < 3; ++i)
        members.push_back(child([] {
            for (;;) pause();
        }));
    int ends[2];
    cr_assert(pipe(ends) == 0);
    members.push_back(child([&] {
        char go;
        (void)!::read(ends[0], &go, 1);
        if (fork() == 0) setsid();
        for (;;) pause();
    }));
    const pid_t neighbour = child([] {
        for (;;) pause();
    });
    for (pid_t pid : members) cr_expect(group->add(pid));
    cr_expect(other->add(neighbour));
    (void)!write(ends[1], "x", 1);
    Result<std::vector<pid_t>> inside = group->pids();
    for (int i = 0; i < 500 && inside && inside->size() < 5; ++i, usleep(10'000))
        inside = group->pids();
    cr_expect(inside && inside->size() == 5, "%zu processes", inside ? inside->size() : 0);
    cr_expect_eq(group->remove().error().kind, ErrorKind::unavailable);
    group->kill();
    for (pid_t pid : members) cr_expect_eq(ended_by(pid), SIGKILL);
    Result<void> removed = group->remove();
    for (int i = 0; i < 500 && !removed; ++i, usleep(10'000)) removed = group->remove();
    cr_expect(removed);
    cr_expect(group->pids().error().kind == ErrorKind::invalid, "it is gone");
    cr_expect_eq(base.names(), std::vector<std::string>{"other"});
    cr_expect_eq(waitpid(neighbour, nullptr, WNOHANG), 0, "another group's process lives");
    kill(neighbour, SIGKILL);
    waitpid(neighbour, nullptr, 0);
    removed = other->remove();
    for (int i = 0; i < 500 && !removed; ++i, usleep(10'000)) removed = other->remove();
    base.remove();
    umount(root.path.c_str());
}

// A limit that cannot be written is no limit: there is no group then.
Test(cgroup, that_cannot_be_limited_is_not_made)
{
    const Directory root;
    const fs::path ours = root.path / "workers";
    for (const char *missing : {"memory.max", "pids.max"}) {
        new_group(ours / "job-7");
        fs::remove(ours / "job-7" / missing);
        Result<Cgroup> group = CgroupBase({ours}, true).make("job-7", kLimits);
        cr_expect(!group, "without %s", missing);
        cr_expect(!group && group.error().text.find(missing) != std::string::npos);
    }
    // Of processors it does without.
    new_group(ours / "job-7");
    fs::remove(ours / "job-7/cpu.max");
    fs::remove(ours / "job-7/cpu.weight");
    cr_expect(CgroupBase({ours}, true).make("job-7", kLimits));
}

Test(cgroup, v2_takes_the_group_that_systemd_gave)
{
    const Directory root;
    const fs::path unit = root.path / "rgpu.slice/rgpu-spawner.service";
    put(root.path / "cgroup.controllers", "cpuset cpu io memory pids");
    put(root.path / "self", "0::/rgpu.slice/rgpu-spawner.service");
    put(unit / "cgroup.controllers", "cpu memory pids");
    put(unit / "cgroup.type", "domain");
    new_group(unit / "spawner");
    new_group(unit);
    new_group(unit / "workers");
    new_group(unit / "workers/job-7");

    CgroupBase base = CgroupBase::find("workers", root.path, root.path / "self");
    cr_assert(base.way() == CgroupBase::Way::v2, "%s", base.told().c_str());
    cr_expect_eq(read(unit / "spawner/cgroup.procs"), "0",
                 "this process is in a group beside the workers'");
    cr_expect_eq(read(unit / "cgroup.subtree_control"), "+memory +pids +cpu");
    cr_expect_eq(read(unit / "workers/cgroup.subtree_control"), "+memory +pids +cpu");
    Result<Cgroup> group = base.make("job-7", kLimits);
    cr_assert(group);
    cr_expect_eq(read(unit / "workers/job-7/memory.max"), "67108864");
    cr_expect_eq(read(unit / "workers/job-7/pids.max"), "20");
    cr_expect_eq(read(unit / "workers/job-7/cpu.max"), "150000 100000");
    cr_expect_eq(read(unit / "workers/job-7/cpu.weight"), "50");
    cr_expect(group->add(4711));
    cr_expect_eq(read(unit / "workers/job-7/cgroup.procs"), "4711");
    group->close();
    cr_expect_eq(read(unit / "workers/job-7/cgroup.kill"), "1");
    cr_expect_eq(base.names(), std::vector<std::string>{"job-7"});

    // After a restart, from the group that it moved to, or that DelegateSubgroup= put it in.
    put(root.path / "self", "0::/rgpu.slice/rgpu-spawner.service/spawner");
    base = CgroupBase::find("workers", root.path, root.path / "self");
    cr_expect(base.way() == CgroupBase::Way::v2, "%s", base.told().c_str());
    cr_expect_eq(base.names(), std::vector<std::string>{"job-7"});
}

Test(cgroup, without_controllers_there_are_rlimits_and_it_says_why)
{
    const Directory root;
    put(root.path / "cgroup.controllers", "cpu io");
    put(root.path / "self", "0::/");
    CgroupBase base = CgroupBase::find("workers", root.path, root.path / "self");
    cr_expect(base.way() == CgroupBase::Way::none);
    cr_expect(base.told().find("no controller \"memory\"") != std::string::npos, "%s",
              base.told().c_str());
    // What makes groups need not know.
    Result<Cgroup> group = base.make("job-7", kLimits);
    cr_expect(group && !*group && group->add(1) && group->remove());
    cr_expect(group->limit(kLimits) && group->pids() && group->pids()->empty());
    group->kill();
    cr_expect(base.names().empty());
    base = CgroupBase::find("workers", root.path / "nothing", root.path / "self");
    cr_expect(base.way() == CgroupBase::Way::none);
}

// As rgpud's user does, in directories that root has made.
Test(cgroup, rgpud_makes_and_limits_groups_without_root)
{
    const CgroupBase mine = CgroupBase::find("rgpu-cgroup-test");
    if (mine.way() == CgroupBase::Way::none || geteuid() != 0)
        cr_skip_test("needs a host with cgroups, and root: %s", mine.told().c_str());
    constexpr uid_t kUser = 2000000123;
    cr_assert(mine.give(kUser));
    const pid_t pid = child([&] {
        if (setresuid(kUser, kUser, kUser) != 0) _exit(1);
        const CgroupBase base(mine.directories(), mine.way() == CgroupBase::Way::v2);
        Result<Cgroup> group = base.make("of-a-user", kLimits);
        if (!group ||
            !group->limit({.memory = 32 << 20, .pids = 9, .cpu_hundredths = 10, .cpu_weight = 7}))
            _exit(2);
        group->close();
        // What limits all workers together is root's.
        for (const std::string &directory : mine.directories())
            for (const char *file : {"memory.max", "memory.limit_in_bytes", "pids.max",
                                     "cpu.shares", "cgroup.procs", "cgroup.subtree_control"})
                if (access((directory + "/" + file).c_str(), W_OK) == 0) _exit(3);
        if (!group->remove()) _exit(4);
    });
    int status = 0;
    waitpid(pid, &status, 0);
    cr_expect_eq(WEXITSTATUS(status), 0, "step %d", WEXITSTATUS(status));
    remove_base();
}

Test(cgroup, refuses_names_that_lead_elsewhere)
{
    const CgroupBase base = CgroupBase::find("rgpu-cgroup-test", "/nonexistent");
    for (const char *name : {"", ".", "..", "../x", "a/b", "a b"})
        cr_expect(!base.make(name, {}), "\"%s\"", name);
}
