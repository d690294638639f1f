#include "spawner/namespaces.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace rgpu::spawner {
namespace {

constexpr const char *kAnyDevice[] = {"null", "zero", "full", "random", "urandom", "infiniband"};
constexpr const char *kOwnOptions = "mode=0700,size=1g,nr_inodes=64k,uid=";

// Under one of an init's own: what the tenant's processes may not change, even root's.
bool close_dev()
{
    return mount(nullptr, "/dev", nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NOEXEC,
                 nullptr) == 0;
}

// In the mount namespace whose /dev it is. A device's own mount forbids what /dev's does.
bool put(const std::vector<Device> &devices)
{
    for (const Device &device : devices) {
        const std::string path = "/dev/" + device.name;
        const int made = device.folder ? mkdir(path.c_str(), 0755)
                                       : open(path.c_str(), O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        if (made < 0 || syscall(SYS_move_mount, device.tree.get(), "", AT_FDCWD, path.c_str(),
                                MOVE_MOUNT_F_EMPTY_PATH) != 0)
            return false;
    }
    return close_dev();
}

bool mount_all(const std::vector<Device> &devices, const std::string &own, uid_t uid)
{
    const std::string options = kOwnOptions + std::to_string(uid) + ",gid=" + std::to_string(uid);
    // A slave: what the host unmounts later is unmounted here, too, and nothing of this is seen
    // there.
    return mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) == 0 &&
           mount("rgpu", "/dev", "tmpfs", MS_NOSUID | MS_NOEXEC, "size=64k,mode=0755") == 0 &&
           mkdir("/dev/shm", 01777) == 0 &&
           mount("rgpu", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777") == 0 &&
           put(devices) &&
           mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) == 0 &&
           (own.empty() ||
            mount("rgpu", own.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, options.c_str()) == 0);
}

// The first process of the PID namespace: its end is the end of all others there.
[[noreturn]] void be_init(const std::vector<Device> &devices, const std::string &own, uid_t uid,
                          int say)
{
    signal(SIGCHLD, SIG_IGN);  // orphans need no more
    prctl(PR_SET_NAME, "rgpu-init");
    int failure = 0;
    umask(0);
    if (!mount_all(devices, own, uid) || chdir("/") != 0 || !drop_capabilities() ||
        prctl(PR_SET_DUMPABLE, 0) != 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        failure = errno;
    (void)!write(say, &failure, sizeof failure);
    if (failure) _exit(1);
    close_range(0, ~0U, 0);
    for (;;) pause();
}

Error failed(const char *what)
{
    return error(ErrorKind::internal, "%s: %s", what, strerror(errno));
}

}  // namespace

bool is_device(const std::string &name)
{
    const bool plain = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
    });
    return plain &&
           (name.starts_with("nvidia") ||
            std::find(std::begin(kAnyDevice), std::end(kAnyDevice), name) != std::end(kAnyDevice));
}

Result<std::vector<Device>> open_devices(const std::vector<std::string> &names)
{
    std::vector<Device> devices;
    for (const std::string &name : names) {
        const std::string path = "/dev/" + name;
        struct stat state;
        if (lstat(path.c_str(), &state) != 0) continue;
        if (!S_ISCHR(state.st_mode) && !S_ISDIR(state.st_mode))
            return error(ErrorKind::invalid, "%s is no device", path.c_str());
        Device device{name, S_ISDIR(state.st_mode), {}};
        device.tree.reset(static_cast<int>(
            syscall(SYS_open_tree, AT_FDCWD, path.c_str(),
                    OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW | AT_RECURSIVE)));
        if (!device.tree) return failed(path.c_str());
        devices.push_back(std::move(device));
    }
    return devices;
}

Result<Init> make_namespaces(const std::vector<Device> &devices, const std::string &own, uid_t uid)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return failed("pipe");
    Fd hear(ends[0]), say(ends[1]);
    const long pid = syscall(SYS_clone, CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | SIGCHLD,
                             nullptr, nullptr, nullptr, nullptr);
    if (pid == 0) be_init(devices, own, uid, say.get());
    if (pid < 0) return failed("no namespaces");
    Init init{static_cast<pid_t>(pid), Fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)))};
    say.reset();
    int failure = ESRCH;
    pollfd look{hear.get(), POLLIN, 0};
    if (poll(&look, 1, 5000) == 1) (void)!read(hear.get(), &failure, sizeof failure);
    if (failure || !init.process) {
        kill(init.pid, SIGKILL);
        waitpid(init.pid, nullptr, 0);
        errno = failure;
        return failed("what a group sees cannot be mounted");
    }
    return init;
}

Result<void> add_devices(const Init &init, const std::vector<Device> &devices)
{
    const pid_t pid = fork();
    if (pid == 0) {
        umask(0);
        const bool open = setns(init.process.get(), CLONE_NEWNS) == 0 &&
                          mount(nullptr, "/dev", nullptr,
                                MS_REMOUNT | MS_BIND | MS_NOSUID | MS_NOEXEC, nullptr) == 0;
        _exit(open && put(devices) ? 0 : errno);
    }
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid) return failed("fork");
    errno = WIFEXITED(status) ? WEXITSTATUS(status) : EINTR;
    return status ? failed("devices cannot be added") : Result<void>();
}

bool drop_capabilities()
{
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && syscall(SYS_capset, &header, none) == 0;
}

}  // namespace rgpu::spawner
