// SPDX-License-Identifier: Apache-2.0
#include "spawner/namespaces.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string_view>

#include "util/child.h"
#include "view/host.h"

namespace rgpu::spawner {
namespace {

constexpr std::string_view kAnyDevice = " null zero full random urandom infiniband ";
constexpr unsigned long kDev = MS_NOSUID | MS_NOEXEC, kFiles = MS_NOSUID | MS_NODEV;

// A mount of its own at that path, which forbids what /dev's does.
bool put(const std::string &path, int tree)
{
    struct stat state {};
    if (fstat(tree, &state) != 0 || !(S_ISCHR(state.st_mode) || S_ISDIR(state.st_mode)))
        return errno = ENODEV, false;
    const int made = S_ISDIR(state.st_mode)
                         ? mkdir(path.c_str(), 0755)
                         : open(path.c_str(), O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (made < 0) return errno == EEXIST;
    return syscall(SYS_move_mount, tree, "", AT_FDCWD, path.c_str(), MOVE_MOUNT_F_EMPTY_PATH) ==
               0 ||
           (remove(path.c_str()), false);
}

// Of the host's /dev into that of `init`.
bool put_all(int init, const std::vector<std::string> &names)
{
    std::map<std::string, int> trees;
    for (const std::string &name : names) {
        const std::string path = "/dev/" + name;
        const long tree = syscall(SYS_open_tree, AT_FDCWD, path.c_str(),
                                  OPEN_TREE_CLONE | AT_SYMLINK_NOFOLLOW | AT_RECURSIVE);
        if (tree >= 0) trees[path] = static_cast<int>(tree);
        if (tree < 0 && errno != ENOENT) return false;
    }
    if (setns(init, CLONE_NEWNS) != 0 ||
        mount(nullptr, "/dev", nullptr, MS_REMOUNT | MS_BIND | kDev, nullptr) != 0)
        return false;
    for (const auto &[path, tree] : trees)
        if (!put(path, tree)) return false;
    // What even a tenant that is root may not change.
    return mount(nullptr, "/dev", nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY | kDev, nullptr) == 0;
}

}  // namespace

bool is_device(const std::string &name)
{
    return !name.empty() &&
           name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == name.npos &&
           (name.starts_with("nvidia") || kAnyDevice.find(" " + name + " ") != kAnyDevice.npos);
}

bool in_child(int init, const std::function<bool()> &body)
{
    const pid_t pid = fork_in(init, fork);
    if (pid == 0) {
        umask(0);
        _exit(body() ? 0 : errno);
    }
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid) return false;
    errno = WIFEXITED(status) ? WEXITSTATUS(status) : EINTR;
    return status == 0;
}

// The first process of the PID namespace: its end is the end of all others there.
pid_t make_init(bool isolated)
{
    const long flags = isolated ? CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC : 0;
    const long pid = syscall(SYS_clone, flags | SIGCHLD, nullptr, nullptr, nullptr, nullptr);
    if (pid != 0) return static_cast<pid_t>(pid);
    signal(SIGCHLD, SIG_IGN);  // orphans need no more
    prctl(PR_SET_NAME, "rgpu-init");
    if (chdir("/") == 0 && drop_capabilities() && prctl(PR_SET_DUMPABLE, 0) == 0 &&
        prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && close_range(0, ~0U, 0) == 0)
        for (;;) pause();
    _exit(1);
}

bool furnish(int init, const Settings &settings, const std::vector<std::string> &writable,
             const std::string &own, uid_t uid)
{
    const std::string id = std::to_string(uid);
    const std::string options = "mode=0700,size=1g,nr_inodes=64k,uid=" + id + ",gid=" + id;
    return in_child(init, [&] {
        return setns(init, CLONE_NEWNS) == 0 &&
               view::keep_from_host(writable, {settings.worker, settings.state}) &&
               mount("rgpu", "/dev", "tmpfs", kDev, "size=64k,mode=0755") == 0 &&
               mkdir("/dev/shm", 01777) == 0 &&
               mount("rgpu", "/dev/shm", "tmpfs", kFiles, "mode=1777") == 0 &&
               mount("proc", "/proc", "proc", kFiles | MS_NOEXEC, nullptr) == 0 &&
               (own.empty() || mount("rgpu", own.c_str(), "tmpfs", kFiles, options.c_str()) == 0);
    });
}

bool add_devices(int init, const std::vector<std::string> &names)
{
    return in_child(-1, [&] { return put_all(init, names); });
}

pid_t fork_in(int init, const std::function<pid_t()> &fork)
{
    static const int own = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
    if (init >= 0 && setns(init, CLONE_NEWPID) != 0) return -1;
    const pid_t pid = fork();
    const int failure = errno;
    // Without this its own next child would be a tenant's.
    if (pid != 0 && init >= 0 && setns(own, CLONE_NEWPID) != 0) abort();
    errno = failure;
    return pid;
}

}  // namespace rgpu::spawner
