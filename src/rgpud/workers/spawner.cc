// SPDX-License-Identifier: Apache-2.0
#include "rgpud/workers/spawner.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "rgpud/workers/spawner_start.h"
#include "util/log.h"
#include "util/packet.h"

namespace rgpu::serverd {
namespace {

using spawner::Answer;
using spawner::What;

constexpr timeval kPatience{10, 0};

Error failed(const char *what, int number)
{
    return error(number == EAGAIN || number == ENOMEM ? ErrorKind::exhausted : ErrorKind::internal,
                 "rgpu-spawner: %s: %s", what, strerror(number));
}

Fd connect_to(const std::string &path)
{
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) return Fd();
    memcpy(address.sun_path, path.c_str(), path.size() + 1);
    Fd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (fd && ::connect(fd.get(), reinterpret_cast<sockaddr *>(&address), sizeof address) != 0)
        fd.reset();
    if (fd) setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
    return fd;
}

// Root is `user` for the moment in which the kernel notes who connects.
Fd connect_as(const std::string &path, uid_t user)
{
    const bool root = geteuid() == 0;
    if (root && seteuid(user) != 0) return Fd();
    Fd fd = connect_to(path);
    if (root && seteuid(0) != 0) abort();
    return fd;
}

template <size_t N> void copy(char (&to)[N], const std::string &from)
{
    memcpy(to, from.data(), std::min(N, from.size()));
}

}  // namespace

Spawner::Spawner(const RgpudConfig &config, Fd socket) : config_(config), socket_(std::move(socket))
{}

std::shared_ptr<Spawner> Spawner::connect(const RgpudConfig &config, uid_t user)
{
    Fd socket = connect_as(spawner_path(config), user);
    if (!socket) return nullptr;
    std::shared_ptr<Spawner> spawner(new Spawner(config, std::move(socket)));
    return spawner->greet() ? spawner : nullptr;
}

Result<std::shared_ptr<Spawner>> Spawner::start(const RgpudConfig &config, uid_t user)
{
    if (std::shared_ptr<Spawner> there = connect(config, user)) return there;
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return failed("no pair of sockets", errno);
    Fd mine(ends[0]), its(ends[1]);
    setsockopt(mine.get(), SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
    Result<std::vector<Fd>> given = prepare_spawner(config, user, true);
    if (!given) return std::move(given).error();
    Launch launch;
    launch.command = spawner_command(config);
    for (const Fd &fd : *given) launch.descriptors.push_back(fd.get());
    launch.descriptors.push_back(its.get());
    // A minicluster knows its processes by what stands there.
    for (const char *name : {"RGPU_MINICLUSTER"})
        if (const char *value = getenv(name)) launch.environment[name] = value;
    if (Result<pid_t> pid = serverd::launch(launch); !pid) return std::move(pid).error();
    its.reset();
    std::shared_ptr<Spawner> spawner(new Spawner(config, std::move(mine)));
    if (Result<void> greeted = spawner->greet(); !greeted) return std::move(greeted).error();
    return spawner;
}

Result<void> Spawner::greet()
{
    spawner::Request hello{};
    hello.what = What::hello;
    Result<Answer> answer = exchange(hello, {}, nullptr);
    if (!answer) return std::move(answer).error();
    const spawner::Settings &running = answer->settings;
    isolates_ = running.namespaces;
    std::vector<std::string> directories;
    for (const char *directory : running.cgroups)
        if (*directory) directories.emplace_back(directory);
    cgroups_ = CgroupBase(std::move(directories), running.v2);
    Result<spawner::Settings> wanted = spawner_settings(config_, geteuid());
    if (!wanted) return {};
    if (const std::string keys = differences(running, *wanted); !keys.empty())
        log_warning("rgpu-spawner runs with other settings than rgpu.conf has now ([rgpud] %s), "
                    "and keeps its own: %s",
                    keys.c_str(),
                    running.once ? "it ends with its last worker once rgpud has ended; then start "
                                   "rgpud as root again"
                                 : "restart rgpu-spawner.service, which ends all workers");
    return {};
}

Result<Answer> Spawner::exchange(const spawner::Request &request,
                                 const std::vector<int> &descriptors, Fd *process)
{
    const size_t bytes = offsetof(spawner::Request, environment) + request.environment_bytes;
    if (const int failure = send_packet(socket_.get(), &request, bytes, descriptors))
        return failed("it takes nothing", failure);
    Answer answer{};
    std::vector<Fd> got;
    const ssize_t n = receive_packet(socket_.get(), &answer, sizeof answer, got, 1);
    if (n != sizeof answer) return failed("it does not answer", n < 0 ? errno : ECONNRESET);
    if (process && !got.empty()) *process = std::move(got.front());
    return answer;
}

// An answer that comes too late would be taken for the next one's: such a connection is closed.
Result<Answer> Spawner::ask(const spawner::Request &request, const std::vector<int> &descriptors,
                            Fd *process)
{
    std::lock_guard lock(mutex_);
    if (!socket_) {
        const std::string path = spawner_path(config_);
        socket_ = connect_to(path);
        if (!socket_) return failed(path.c_str(), errno);
        if (Result<void> greeted = greet(); !greeted) {
            socket_.reset();
            return std::move(greeted).error();
        }
        log_info("rgpu-spawner is connected again");
    }
    Result<Answer> answer = exchange(request, descriptors, process);
    if (!answer) socket_.reset();
    return answer;
}

// As the spawner that answers now has them.
CgroupBase Spawner::cgroups()
{
    std::lock_guard lock(mutex_);
    return cgroups_;
}

Answer Spawner::ask_plain(What what, const std::string &key, const std::string &name, int signal,
                          Fd *process)
{
    spawner::Request request{};
    request.what = what;
    request.signal = signal;
    copy(request.key, key);
    copy(request.name, name);
    Result<Answer> answer = ask(request, {}, process);
    if (answer) {
        told_ = false;
        return *answer;
    }
    if (!std::exchange(told_, true))
        log_error("%s; no worker can be started or ended until it is back",
                  answer.error().text.c_str());
    Answer none{};
    none.error = EIO;
    return none;
}

Result<void> Spawner::make(const Group &group)
{
    spawner::Request request{};
    request.what = What::group;
    request.uid = group.account.uid;
    request.gid = group.account.gid;
    request.owner = group.owner;
    copy(request.key, group.key);
    for (gid_t id : group.account.groups)
        if (request.id_count < spawner::kMostGroupIds) request.ids[request.id_count++] = id;
    for (const std::string &name : group.devices)
        if (request.device_count < spawner::kMostDevices && name.size() < spawner::kDeviceBytes)
            copy(request.devices[request.device_count++], name);
    Result<Answer> answer = ask(request);
    // The one before of that name has not quite ended.
    for (int tries = 0; answer && answer->error == EBUSY && tries < 100; ++tries) {
        if (!end(group.key)) usleep(5000);
        answer = ask(request);
    }
    if (!answer) return std::move(answer).error();
    if (answer->error)
        return failed(("what the workers of " + group.account.name + " share").c_str(),
                      answer->error);
    // Before a worker can be in it.
    Result<Cgroup> limited = cgroups().make(group.key, group.limits);
    return limited ? Result<void>() : std::move(limited).error();
}

Result<Spawner::Started> Spawner::start(const Group &group, const std::string &name,
                                        const Launch &launch)
{
    spawner::Request request{};
    request.what = What::start;
    copy(request.key, group.key);
    copy(request.name, name);
    set_processors(request.cpus, launch.cpus);
    if (cgroups().way() == CgroupBase::Way::none) request.limits = launch.limits;
    for (const auto &[variable, value] : launch.environment) {
        const std::string text = variable + "=" + value;
        if (request.environment_bytes + text.size() + 1 > sizeof request.environment)
            return error(ErrorKind::internal, "a worker's environment is longer than %zu bytes",
                         sizeof request.environment);
        memcpy(request.environment + request.environment_bytes, text.c_str(), text.size() + 1);
        request.environment_bytes += static_cast<uint32_t>(text.size() + 1);
    }
    std::vector<int> descriptors = {launch.errors < 0 ? 2 : launch.errors};
    descriptors.insert(descriptors.end(), launch.descriptors.begin(), launch.descriptors.end());
    if (descriptors.size() > spawner::kMostDescriptors)
        return error(ErrorKind::internal, "%zu descriptors for a worker", descriptors.size());
    for (bool again = false;; again = true) {
        Started started;
        Result<Answer> answer = ask(request, descriptors, &started.process);
        if (!answer && again) return std::move(answer).error();
        if (answer && !answer->error) {
            started.pid = answer->pid;
            return started;
        }
        if (again || (answer && answer->error != ENOENT))
            return failed("a worker does not start", answer->error);
        // Another spawner than the one that made the group.
        if (Result<void> made = make(group); !made) return std::move(made).error();
    }
}

void Spawner::signal(const std::string &key, const std::string &name, int number)
{
    ask_plain(What::signal, key, name, number);
}

std::optional<int> Spawner::reap(const std::string &key, const std::string &name)
{
    const Answer answer = ask_plain(What::reap, key, name);
    return answer.error ? std::nullopt : std::optional(answer.status);
}

bool Spawner::end(const std::string &key)
{
    const Result<Cgroup> cgroup = cgroups().open(key);
    if (cgroup) cgroup->close();
    const int failure = ask_plain(What::end, key, "").error;
    return (failure == 0 || failure == ENOENT) && (!cgroup || cgroup->remove());
}

Result<std::vector<Spawner::Found>> Spawner::list()
{
    std::vector<Found> all;
    std::string key, name;
    for (;;) {
        Found found;
        const Answer answer = ask_plain(What::list, key, name, 0, &found.process);
        if (answer.error == ENOENT) return all;
        if (answer.error) return failed("its list", answer.error);
        key.assign(answer.key, sizeof answer.key);
        name = answer.name[0] ? std::string(answer.name, sizeof answer.name) : "";
        found.key = key;
        found.name = name;
        found.uid = answer.uid;
        found.pid = answer.pid;
        all.push_back(std::move(found));
    }
}

}  // namespace rgpu::serverd
