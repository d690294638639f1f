// SPDX-License-Identifier: Apache-2.0
#include "spawner/groups.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/keyctl.h>
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

#include "spawner/cgroup.h"
#include "spawner/namespaces.h"
#include "util/defaults.h"

namespace rgpu::spawner {
namespace {

constexpr size_t kMost = 16384;  // groups and workers

bool hex(const std::string &name)
{
    return name.find_first_not_of("0123456789abcdef") == name.npos;
}
std::string key_of(const Request &request) { return {request.key, kKeyBytes}; }
std::string name_of(const Request &request)
{
    return key_of(request) + std::string(request.name, kNameBytes);
}
const std::string kGroup(kNameBytes, '\0');  // in the place of a worker's name

// A user's own folder. One that is another's stays as it is: rgpud looks, and leaves it alone.
bool make_folder(const Fd &in, uint32_t name, uid_t uid, gid_t gid)
{
    const std::string text = std::to_string(name);
    if (mkdirat(in.get(), text.c_str(), 0700) != 0) return errno == EEXIST;
    return fchownat(in.get(), text.c_str(), uid, gid, AT_SYMLINK_NOFOLLOW) == 0;
}

}  // namespace

Groups::Process::Process(pid_t pid)
    : pid(pid), process(pid < 0 ? -1 : static_cast<int>(syscall(SYS_pidfd_open, pid, 0)))
{}

bool Groups::Process::ended() const
{
    siginfo_t info{};
    return waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
           info.si_pid == pid;
}

// How it ended. Whatever it left in its session goes with it; before the pid can be another's.
int Groups::Process::take() const
{
    int status = 0;
    kill(-pid, SIGKILL);
    waitpid(pid, &status, 0);
    return status;
}

bool Groups::allows_group(uid_t uid, gid_t gid) const
{
    if (in_pool(uid)) return gid == uid;
    return gid != kNone && ((gid >= defaults::kFirstUser && gid != settings_.user) ||
                            (uid == settings_.worker_user && gid == settings_.worker_group) ||
                            std::count(settings_.groups, std::end(settings_.groups), gid));
}

bool Groups::allows(const Request &request) const
{
    const uid_t uid = request.uid;
    return uid != kNone && uid != settings_.user &&
           (uid >= defaults::kFirstUser || uid == settings_.worker_user) &&
           allows_group(uid, request.gid) &&
           std::all_of(request.ids, request.ids + request.id_count,
                       [&](gid_t id) { return allows_group(uid, id); });
}

int Groups::make(const Request &request)
{
    if (!hex(key_of(request)) || request.id_count > kMostGroupIds ||
        request.device_count > kMostDevices)
        return EINVAL;
    if (!allows(request)) return EPERM;
    std::vector<std::string> devices;
    for (uint32_t i = 0; i < request.device_count; ++i) {
        devices.emplace_back(request.devices[i], strnlen(request.devices[i], kDeviceBytes));
        if (!is_device(devices.back())) return EPERM;
    }
    const std::string key = key_of(request);
    auto group = all_.find(key + kGroup);
    const bool fresh = group == all_.end();
    if (!fresh && (group->second.ending || group->second.ended())) return EBUSY;
    // Who shares a user id shares what it owns: of the pool, each is one group's.
    for (const auto &[name, process] : all_)
        if (name.starts_with(key) ? process.uid != request.uid
                                  : process.uid == request.uid && in_pool(request.uid))
            return EEXIST;
    if (fresh && all_.size() >= kMost) return EAGAIN;
    // One of the pool has a file system of its own, which goes with the group.
    if (!in_pool(request.uid) && !(make_folder(caches_, request.uid, request.uid, request.gid) &&
                                   make_folder(images_, request.owner, request.uid, request.gid)))
        return errno;
    if (fresh) {
        Process made(make_init(settings_.namespaces));
        if (made.pid < 0) return errno;
        made.uid = request.uid;
        made.gid = request.gid;
        made.ids.assign(request.ids, request.ids + request.id_count);
        group = all_.emplace(key + kGroup, std::move(made)).first;
    }
    const int init = group->second.process.get();
    const std::string state = settings_.state, own = in_pool(request.uid) ? state + "/own" : "";
    std::vector<std::string> kept = {state + "/cache/" + std::to_string(request.uid),
                                     state + "/images/" + std::to_string(request.owner)};
    if (!own.empty()) kept.clear();
    if (!settings_.namespaces || ((!fresh || furnish(init, settings_, kept, own, request.uid)) &&
                                  add_devices(init, devices)))
        return 0;
    dprintf(2, "rgpu-spawner: group %.8s: what it sees cannot be mounted: %m\n", key.c_str());
    if (fresh) end(key);
    return EIO;
}

// The child is root until it is in the group's namespaces; nothing of the tenant's is there before
// exec but its user id. Nobody waits for the exec: the tenant's other processes could stop it.
pid_t Groups::spawn(const Process &group, const Request &request,
                    const std::vector<Fd> &descriptors)
{
    std::vector<char *> variables;
    char *at = const_cast<char *>(request.environment), *const end = at + request.environment_bytes;
    for (; at < end; at += strlen(at) + 1) variables.push_back(at);
    variables.push_back(nullptr);
    std::vector<int> places = {0, 0};  // /dev/null
    for (const Fd &descriptor : descriptors) places.push_back(descriptor.get());
    char *const command[] = {const_cast<char *>(settings_.worker), nullptr};
    const Cgroup cgroup(settings_, key_of(request));
    const int init = settings_.namespaces ? group.process.get() : -1;
    const pid_t pid = fork_in(init, [&cgroup] { return cgroup.fork(); });
    if (pid != 0) return pid;
    default_signals();
    setsid();
    bind_to(request.cpus);
    if (set_limits(request.limits) && (init < 0 || setns(init, CLONE_NEWNS | CLONE_NEWIPC) == 0) &&
        place_descriptors(places) && setgroups(group.ids.size(), group.ids.data()) == 0 &&
        setresgid(group.gid, group.gid, group.gid) == 0 &&
        setresuid(group.uid, group.uid, group.uid) == 0 && drop_capabilities() &&
        prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 &&
        // The keys of root's session stay there.
        (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, nullptr), chdir("/")) == 0)
        execve(command[0], command, variables.data());
    dprintf(2, "rgpu-spawner: %s does not start: %m\n", command[0]);
    _exit(127);
}

int Groups::start(const Request &request, const std::vector<Fd> &descriptors, Answer &answer,
                  int &process)
{
    const char *end = request.environment + request.environment_bytes;
    if (!hex(name_of(request)) || request.environment_bytes == 0 || end[-1] ||
        descriptors.empty() ||
        std::count(request.environment, end, '\0') > static_cast<ptrdiff_t>(kMostVariables))
        return EINVAL;
    const auto group = all_.find(key_of(request) + kGroup);
    if (group == all_.end() || group->second.ending) return ENOENT;
    if (all_.count(name_of(request))) return EEXIST;
    if (all_.size() >= kMost) return EAGAIN;
    Process made(spawn(group->second, request, descriptors));
    if (made.pid < 0) return group->second.ended() ? ENOENT : errno;
    if (!made.process) return kill(made.pid, SIGKILL), made.take(), EMFILE;
    answer.pid = made.pid;
    process = made.process.get();
    made.uid = group->second.uid;
    all_.emplace(name_of(request), std::move(made));
    return 0;
}

int Groups::signal(const Request &request) const
{
    if (request.signal != SIGTERM && request.signal != SIGKILL) return EPERM;
    const auto worker = all_.find(name_of(request));
    if (worker == all_.end() || !hex(name_of(request))) return ENOENT;
    // It leads its session, or is about to.
    if (kill(-worker->second.pid, request.signal) != 0) kill(worker->second.pid, request.signal);
    return 0;
}

int Groups::reap(const Request &request, int &status)
{
    const auto worker = all_.find(name_of(request));
    if (worker == all_.end() || !hex(name_of(request))) return ENOENT;
    if (!worker->second.ended()) return EBUSY;
    status = worker->second.take();
    all_.erase(worker);
    return 0;
}

int Groups::end(const std::string &key)
{
    const auto first = all_.find(key + kGroup);
    if (first == all_.end()) return ENOENT;
    first->second.ending = true;
    // Of the pool: all processes of a user that has nothing but these.
    if (const uid_t uid = first->second.uid; !settings_.namespaces && in_pool(uid))
        in_child(-1, [=] { return setresuid(uid, uid, uid) == 0 && kill(-1, SIGKILL) == 0; });
    bool lives = Cgroup(settings_, key).kill();
    // The first one is the namespace's: it ends when all others there have ended and been taken.
    for (auto next = first; next != all_.end() && next->first.starts_with(key);) {
        const auto process = next++;
        kill(process->second.pid, SIGKILL);
        kill(-process->second.pid, SIGKILL);
        const bool ended = process->second.ended();
        lives = lives || !ended;
        if (ended && process != first) process->second.take(), all_.erase(process);
    }
    if (lives) return EBUSY;
    return first->second.take(), all_.erase(first), 0;
}

void Groups::end_idle()
{
    std::map<std::string, bool> runs;  // by group
    for (const auto &[name, process] : all_)
        runs[name.substr(0, kKeyBytes)] |= !name.ends_with(kGroup) && !process.ended();
    for (const auto &[key, some] : runs)
        if (!some) end(key);
}

int Groups::next(const Name &behind, Answer &answer, int &process) const
{
    const auto found = all_.upper_bound(behind);
    if (found == all_.end()) return ENOENT;
    answer.uid = found->second.uid;
    answer.pid = found->second.pid;
    memcpy(answer.key, found->first.data(), kKeyBytes);
    memcpy(answer.name, found->first.data() + kKeyBytes, kNameBytes);
    process = found->second.process.get();
    return 0;
}

bool Groups::carry_out(const Request &request, const std::vector<Fd> &descriptors, Answer &answer,
                       int &process)
{
    if (request.what != What::start && !descriptors.empty()) return false;
    switch (request.what) {
    case What::hello: answer.settings = settings_; return true;
    case What::group: answer.error = make(request); return true;
    case What::start: answer.error = start(request, descriptors, answer, process); return true;
    case What::signal: answer.error = signal(request); return true;
    case What::reap: answer.error = reap(request, answer.status); return true;
    case What::end: answer.error = end(key_of(request)); return true;
    case What::list: answer.error = next(name_of(request), answer, process); return true;
    }
    return false;
}

}  // namespace rgpu::spawner
