#include "spawner/groups.h"

#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "util/sha256.h"

namespace rgpu::spawner {
namespace {

constexpr size_t kMostGroups = 4096, kMostWorkers = 8192;  // of all; of a group
constexpr int kFirst = 3;                                  // where a worker finds what it is given
constexpr int kOutOfTheWay = 128;                          // above all that has a place

template <size_t N> bool hex(const char (&name)[N])
{
    return std::all_of(name, name + N,
                       [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

// A folder that only root changes, whatever rgpud's user put in its place.
Fd open_own(const std::string &path)
{
    (void)mkdir(path.c_str(), 0755);
    Fd dir(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (dir && (fchown(dir.get(), 0, 0) != 0 || fchmod(dir.get(), 0755) != 0)) dir.reset();
    return dir;
}

// A user's own folder. One that is another's stays as it is: rgpud looks, and leaves it alone.
bool make_folder(const Fd &in, uint32_t name, uid_t uid, gid_t gid)
{
    const std::string text = std::to_string(name);
    if (mkdirat(in.get(), text.c_str(), 0700) != 0) return errno == EEXIST;
    return fchownat(in.get(), text.c_str(), uid, gid, AT_SYMLINK_NOFOLLOW) == 0;
}

// All processes of a user that has nothing but these.
void kill_all_of(uid_t uid)
{
    const pid_t pid = fork();
    if (pid == 0) {
        if (setresuid(uid, uid, uid) == 0) kill(-1, SIGKILL);
        _exit(0);
    }
    if (pid > 0) waitpid(pid, nullptr, 0);
}

// Puts descriptors where they belong: first out of the way, so that none overwrites another.
bool place(const std::vector<Fd> &given)
{
    const int count = static_cast<int>(given.size()) - 1, null = open("/dev/null", O_RDWR);
    if (null < 0) return false;
    int high[kMostDescriptors];
    for (int i = 0; i <= count; ++i)
        if ((high[i] = fcntl(given[static_cast<size_t>(i)].get(), F_DUPFD, kOutOfTheWay)) < 0)
            return false;
    if (dup2(null, 0) != 0 || dup2(null, 1) != 1 || dup2(high[0], 2) != 2) return false;
    for (int i = 1; i <= count; ++i)
        if (dup2(high[i], kFirst + i - 1) < 0) return false;
    return close_range(static_cast<unsigned>(kFirst + count), ~0U, 0) == 0;
}

// Into a cgroup: "0" is whoever writes it.
bool enter(const Result<std::vector<Fd>> &doors)
{
    for (const Fd &door : *doors)
        if (write(door.get(), "0", 1) != 1) return false;
    return true;
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

void bind_to(const uint64_t (&cpus)[16])
{
    static_assert(sizeof(cpu_set_t) == sizeof cpus);
    cpu_set_t set;
    memcpy(&set, cpus, sizeof set);
    if (CPU_COUNT(&set))
        (void)sched_setaffinity(0, sizeof set,
                                &set);  // where the kernel has none of them: it is not
}

}  // namespace

Result<void> Groups::open(const Settings &settings)
{
    settings_ = settings;
    own_pids_.reset(::open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC));
    caches_ = open_own(settings.state + "/cache");
    images_ = open_own(settings.state + "/images");
    Fd own = open_own(settings.state + "/own");
    if (!caches_ || !images_ || !own || !own_pids_)
        return error(ErrorKind::invalid, "folders in %s: %s", settings.state.c_str(),
                     strerror(errno));
    // Several may be on one host, and each ends what it does not know.
    base_ = CgroupBase::find("rgpu-" + to_hex(sha256(settings.state)).substr(0, 12));
    dprintf(2, "rgpu-spawner: %s\n", base_.told().c_str());
    // Workers end with their spawner: what one before this left is empty, or about to be.
    for (const std::string &name : base_.names())
        if (Result<Cgroup> left = base_.open(name); left && left->kill()) (void)left->remove();
    if (!settings.namespaces) return {};
    Result<std::vector<Device>> devices = open_devices({"null"});
    Result<Init> tried = devices ? make_namespaces(*devices, "", 0)
                                 : Result<Init>(std::move(devices).error());
    isolated_ = tried.has_value();
    if (isolated_) {
        kill(tried->pid, SIGKILL);
        waitpid(tried->pid, nullptr, 0);
    } else {
        dprintf(2,
                "rgpu-spawner: no namespaces here (%s): workers see the host's processes and "
                "devices\n",
                tried.error().text.c_str());
    }
    return {};
}

int Groups::make_folders(const Group &request)
{
    if (settings_.in_pool(
            request.uid))  // it has a file system of its own, which goes with the group
        return 0;
    return make_folder(caches_, request.uid, request.uid, request.gid) &&
                   make_folder(images_, request.owner, request.uid, request.gid)
               ? 0
               : errno;
}

int Groups::make(const Group &request)
{
    if (!hex(request.key) || request.id_count > kMostGroupIds ||
        request.device_count > kMostDevices)
        return EINVAL;
    std::vector<gid_t> ids(request.ids, request.ids + request.id_count);
    if (!settings_.allows(request.uid) || !settings_.allows_group(request.uid, request.gid) ||
        !std::all_of(ids.begin(), ids.end(),
                     [&](gid_t id) { return settings_.allows_group(request.uid, id); }))
        return EPERM;
    const std::string key(request.key, kKeyBytes);
    const auto there = groups_.find(key);
    if (there != groups_.end() && (there->second.ending || there->second.uid != request.uid))
        return there->second.ending ? EBUSY : EEXIST;
    std::vector<std::string> fresh;
    for (uint32_t i = 0; i < request.device_count; ++i) {
        const std::string name(request.devices[i], strnlen(request.devices[i], kDeviceBytes));
        if (!is_device(name)) return EPERM;
        if (there == groups_.end() || !there->second.devices.count(name)) fresh.push_back(name);
    }
    // Who shares a user id shares what it owns: of the pool, each is one group's.
    for (const auto &[other, group] : groups_)
        if (other != key && group.uid == request.uid && settings_.in_pool(request.uid))
            return EEXIST;
    if (there == groups_.end() && groups_.size() >= kMostGroups) return EAGAIN;
    if (const int failure = make_folders(request)) return failure;
    One made;
    made.uid = request.uid;
    made.gid = request.gid;
    made.ids = std::move(ids);
    if (isolated_ && (there == groups_.end() || !fresh.empty())) {
        Result<std::vector<Device>> devices = open_devices(fresh);
        Result<void> done = devices ? Result<void>() : Result<void>(std::move(devices).error());
        if (done && there != groups_.end()) {
            done = add_devices(there->second.init, *devices);
        } else if (done) {
            const std::string own = settings_.in_pool(request.uid) ? settings_.state + "/own" : "";
            Result<Init> init = make_namespaces(*devices, own, request.uid);
            if (init)
                made.init = std::move(*init);
            else
                done = std::move(init).error();
        }
        if (!done) {
            dprintf(2, "rgpu-spawner: group %.8s: %s\n", key.c_str(), done.error().text.c_str());
            return EIO;
        }
    }
    One &group = there == groups_.end() ? groups_[key] = std::move(made) : there->second;
    if (Result<void> limited = limit(group, request); !limited) {
        dprintf(2, "rgpu-spawner: group %.8s: %s\n", key.c_str(), limited.error().text.c_str());
        if (there == groups_.end()) end(key);
        return EIO;
    }
    group.devices.insert(fresh.begin(), fresh.end());
    return 0;
}

// Before a worker can be in it.
Result<void> Groups::limit(One &group, const Group &request)
{
    group.limits = request.limits;
    Result<Cgroup> made = base_.make(std::string(request.key, kKeyBytes), request.limits);
    if (!made) return std::move(made).error();
    group.cgroup = std::move(*made);
    return group.init.pid ? group.cgroup.add(group.init.pid) : Result<void>();
}

// The child is root until it is in the group's namespaces; nothing of the tenant's is there before
// exec but its user id. Nobody waits for the exec: the tenant's other processes could stop it.
pid_t Groups::spawn(const One &group, const Start &request, const std::vector<Fd> &descriptors)
{
    std::vector<char *> variables;
    char *at = const_cast<char *>(request.environment), *const end = at + request.environment_bytes;
    for (; at < end; at += strlen(at) + 1) variables.push_back(at);
    variables.push_back(nullptr);
    char *const command[] = {settings_.worker.data(), nullptr};
    const Result<std::vector<Fd>> doors = group.cgroup.doors();
    if (!doors) {
        errno = EIO;
        return -1;
    }
    if (group.init.process && setns(group.init.process.get(), CLONE_NEWPID) != 0) return -1;
    Limits one = group.limits;  // where each process is limited by itself
    one.pids += kOthers;
    bool inside = false;
    const pid_t pid = group.cgroup.fork(inside);
    if (pid == 0) {
        default_signals();
        setsid();
        bind_to(request.cpus);
        if ((inside || enter(doors)) && (group.cgroup || set_rlimits(one)) &&
            (!group.init.process ||
             setns(group.init.process.get(), CLONE_NEWNS | CLONE_NEWIPC) == 0) &&
            place(descriptors) && setgroups(group.ids.size(), group.ids.data()) == 0 &&
            setresgid(group.gid, group.gid, group.gid) == 0 &&
            setresuid(group.uid, group.uid, group.uid) == 0 && drop_capabilities() &&
            prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && chdir("/") == 0)
            execve(command[0], command, variables.data());
        dprintf(2, "rgpu-spawner: %s does not start: %s\n", command[0], strerror(errno));
        _exit(127);
    }
    const int failure = errno;
    // Without this its own next child would be a tenant's.
    if (group.init.process && setns(own_pids_.get(), CLONE_NEWPID) != 0) abort();
    errno = failure;
    return pid;
}

int Groups::start(const Start &request, const std::vector<Fd> &descriptors, pid_t &pid,
                  int &process)
{
    const auto there = groups_.find(std::string(request.key, kKeyBytes));
    const char *last = request.environment + request.environment_bytes - 1;
    if (!hex(request.name) || request.environment_bytes == 0 || *last || descriptors.empty() ||
        descriptors.size() > kMostDescriptors ||
        std::count(request.environment, last + 1, '\0') > static_cast<ptrdiff_t>(kMostVariables))
        return EINVAL;
    if (there == groups_.end() || there->second.ending) return ENOENT;
    One &group = there->second;
    const std::string name(request.name, kNameBytes);
    if (group.workers.count(name) || group.workers.size() >= kMostWorkers)
        return group.workers.count(name) ? EEXIST : EAGAIN;
    Worker made;
    made.pid = spawn(group, request, descriptors);
    if (made.pid < 0) return errno;
    made.process.reset(static_cast<int>(syscall(SYS_pidfd_open, made.pid, 0)));
    if (!made.process) {
        const int failure = errno;
        kill(made.pid, SIGKILL);
        return failure;
    }
    pid = made.pid;
    process = made.process.get();
    group.workers[name] = std::move(made);
    return 0;
}

Groups::Worker *Groups::worker(const Plain &request)
{
    const auto group = groups_.find(std::string(request.key, kKeyBytes));
    if (group == groups_.end()) return nullptr;
    const auto found = group->second.workers.find(std::string(request.name, kNameBytes));
    return found == group->second.workers.end() ? nullptr : &found->second;
}

int Groups::signal(const Plain &request)
{
    if (request.signal != SIGTERM && request.signal != SIGKILL) return EPERM;
    Worker *found = worker(request);
    if (!found) return ENOENT;
    // It leads its session, whose number is not given again before look() has taken its end.
    if (!found->ended) kill(-found->pid, request.signal);
    return 0;
}

int Groups::reap(const Plain &request, int &status)
{
    look();
    Worker *found = worker(request);
    if (!found || !found->ended) return found ? EBUSY : ENOENT;
    status = found->status;
    groups_[std::string(request.key, kKeyBytes)].workers.erase(
        std::string(request.name, kNameBytes));
    return 0;
}

bool Groups::alive(const One &group) const
{
    return group.init.pid || std::any_of(group.workers.begin(), group.workers.end(),
                                         [](const auto &w) { return !w.second.ended; });
}

int Groups::end(const std::string &key)
{
    const auto there = groups_.find(key);
    if (there == groups_.end()) return ENOENT;
    One &group = there->second;
    group.ending = true;
    if (group.init.pid) kill(group.init.pid, SIGKILL);
    for (auto &[name, worker] : group.workers)
        if (!worker.ended) kill(-worker.pid, SIGKILL);
    if (!isolated_ && settings_.in_pool(group.uid)) kill_all_of(group.uid);
    (void)group.cgroup.kill();
    look();
    if (alive(group) || !group.cgroup.remove()) return EBUSY;
    groups_.erase(there);
    return 0;
}

void Groups::end_idle()
{
    std::vector<std::string> idle;
    for (auto &[key, group] : groups_) {
        std::erase_if(group.workers, [](const auto &entry) { return entry.second.ended; });
        if (group.workers.empty()) idle.push_back(key);
    }
    for (const std::string &key : idle) end(key);
}

int Groups::next(const Plain &behind, Answer &answer, int &process)
{
    const std::string key(behind.key, kKeyBytes), name(behind.name, kNameBytes);
    for (const auto &[other, group] : groups_) {
        if (other < key) continue;
        const bool whole = other > key;
        answer.uid = group.uid;
        memcpy(answer.key, other.data(), kKeyBytes);
        if (whole) return 0;
        for (const auto &[worker_name, worker] : group.workers)
            if (worker_name > name && !worker.ended) {
                answer.pid = worker.pid;
                memcpy(answer.name, worker_name.data(), kNameBytes);
                process = worker.process.get();
                return 0;
            }
    }
    return ENOENT;
}

void Groups::look()
{
    siginfo_t info{};
    while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid) {
        // Whatever it left in its session goes with it; before the pid can be another's.
        kill(-info.si_pid, SIGKILL);
        int status = 0;
        waitpid(info.si_pid, &status, 0);
        for (auto &[key, group] : groups_) {
            if (group.init.pid == info.si_pid) {
                group.init.pid = 0;
                group.ending = true;
            }
            for (auto &[name, worker] : group.workers)
                if (!worker.ended && worker.pid == info.si_pid) {
                    worker.ended = true;
                    worker.status = status;
                }
        }
        info = {};
    }
}

}  // namespace rgpu::spawner
