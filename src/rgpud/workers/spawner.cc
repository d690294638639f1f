#include "rgpud/workers/spawner.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>

#include "util/log.h"

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

// Beside the worker program; of a tree that was built, or is not where it was configured to be, in
// rgpud's neighbour folder.
std::string program(const RgpudConfig &config)
{
    namespace fs = std::filesystem;
    std::error_code failure;
    const fs::path self = fs::read_symlink("/proc/self/exe", failure);
    for (const fs::path &place :
         {fs::path(config.worker).parent_path(), self.parent_path().parent_path() / "libexec"})
        if (exists(place / "rgpu-spawner", failure)) return place / "rgpu-spawner";
    return std::string(defaults::kLibexecDir) + "/rgpu-spawner";
}

std::vector<std::string> command_line(const RgpudConfig &config, uid_t user)
{
    std::vector<std::string> words = {
        program(config),      "--socket", spawner_path(config), "--user",
        std::to_string(user), "--worker", config.worker,        "--pool",
        config.worker_uids,   "--state",  config.state_dir,     "--once"};
    if (config.confine_workers == "false") words.push_back("--no-namespaces");
    if (!config.worker_user.empty())
        words.insert(words.end(), {"--worker-user", config.worker_user});
    for (const char *name : kDeviceGroups) words.insert(words.end(), {"--group", name});
    return words;
}

template <size_t N> void copy(char (&to)[N], const std::string &from)
{
    memcpy(to, from.data(), std::min(N, from.size()));
}

}  // namespace

std::string spawner_path(const RgpudConfig &config)
{
    return config.spawner.empty() ? config.state_dir + "/spawner.sock" : config.spawner;
}

std::shared_ptr<Spawner> Spawner::connect(const RgpudConfig &config, uid_t user)
{
    const std::string path = spawner_path(config);
    Fd socket = connect_as(path, user);
    if (!socket) return nullptr;
    std::shared_ptr<Spawner> spawner(new Spawner(path, std::move(socket)));
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
    Launch launch;
    launch.command = command_line(config, user);
    launch.command.insert(launch.command.end(), {"--connected", "3"});
    launch.descriptors = {its.get()};
    // A minicluster knows its processes by what stands there.
    for (const char *name : {"RGPU_MINICLUSTER"})
        if (const char *value = getenv(name)) launch.environment[name] = value;
    if (Result<pid_t> pid = serverd::launch(launch); !pid) return std::move(pid).error();
    its.reset();
    std::shared_ptr<Spawner> spawner(new Spawner(spawner_path(config), std::move(mine)));
    if (Result<void> greeted = spawner->greet(); !greeted) return std::move(greeted).error();
    return spawner;
}

Result<void> Spawner::greet()
{
    const spawner::Plain hello{What::hello, 0, {}, {}};
    Result<Answer> answer = exchange(&hello, sizeof hello, {}, nullptr);
    if (!answer) return std::move(answer).error();
    isolates_ = answer->isolated;
    return {};
}

Result<Answer> Spawner::exchange(const void *request, size_t bytes,
                                 const std::vector<int> &descriptors, Fd *process)
{
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * spawner::kMostDescriptors)] = {};
    iovec vector{const_cast<void *>(request), bytes};
    msghdr header{};
    header.msg_iov = &vector;
    header.msg_iovlen = 1;
    if (!descriptors.empty()) {
        const size_t size = sizeof(int) * descriptors.size();
        header.msg_control = control;
        header.msg_controllen = CMSG_SPACE(size);
        cmsghdr *rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(size);
        memcpy(CMSG_DATA(rights), descriptors.data(), size);
    }
    if (sendmsg(socket_.get(), &header, MSG_NOSIGNAL) != static_cast<ssize_t>(bytes))
        return failed("it takes nothing", errno);
    Answer answer{};
    vector = {&answer, sizeof answer};
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    ssize_t n;
    while ((n = recvmsg(socket_.get(), &header, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR) {}
    Fd got;
    if (const cmsghdr *rights = n > 0 ? CMSG_FIRSTHDR(&header) : nullptr;
        rights && rights->cmsg_type == SCM_RIGHTS) {
        int fd;
        memcpy(&fd, CMSG_DATA(rights), sizeof fd);
        got.reset(fd);
    }
    if (n != sizeof answer) return failed("it does not answer", n < 0 ? errno : ECONNRESET);
    if (process) *process = std::move(got);
    return answer;
}

// An answer that comes too late would be taken for the next one's: such a connection is closed.
Result<Answer> Spawner::ask(const void *request, size_t bytes, const std::vector<int> &descriptors,
                            Fd *process)
{
    std::lock_guard lock(mutex_);
    if (!socket_) {
        socket_ = connect_to(path_);
        if (!socket_) return failed(path_.c_str(), errno);
        isolates_ = false;
        if (Result<void> greeted = greet(); !greeted) {
            socket_.reset();
            return std::move(greeted).error();
        }
        log_info("rgpu-spawner is connected again");
    }
    Result<Answer> answer = exchange(request, bytes, descriptors, process);
    if (!answer) socket_.reset();
    return answer;
}

Answer Spawner::ask_plain(What what, const std::string &key, const std::string &name, int signal,
                          Fd *process)
{
    spawner::Plain request{what, signal, {}, {}};
    copy(request.key, key);
    copy(request.name, name);
    Result<Answer> answer = ask(&request, sizeof request, {}, process);
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
    spawner::Group request{};
    request.what = What::group;
    request.uid = group.account.uid;
    request.gid = group.account.gid;
    request.owner = group.owner;
    request.limits = group.limits;
    copy(request.key, group.key);
    for (gid_t id : group.account.groups)
        if (request.id_count < spawner::kMostGroupIds) request.ids[request.id_count++] = id;
    for (const std::string &name : group.devices)
        if (request.device_count < spawner::kMostDevices && name.size() < spawner::kDeviceBytes)
            copy(request.devices[request.device_count++], name);
    Result<Answer> answer = ask(&request, sizeof request, {});
    // The one before of that name has not quite ended.
    for (int tries = 0; answer && answer->error == EBUSY && tries < 100; ++tries) {
        if (!end(group.key)) usleep(5000);
        answer = ask(&request, sizeof request, {});
    }
    if (!answer) return std::move(answer).error();
    if (answer->error)
        return failed(("what the workers of " + group.account.name + " share").c_str(),
                      answer->error);
    return {};
}

Result<Spawner::Started> Spawner::start(const Group &group, const std::string &name,
                                        const Launch &launch)
{
    spawner::Start request{};
    request.what = What::start;
    copy(request.key, group.key);
    copy(request.name, name);
    for (int cpu : launch.cpus)
        if (cpu >= 0 && cpu < static_cast<int>(sizeof request.cpus * 8))
            request.cpus[cpu / 64] |= uint64_t{1} << cpu % 64;
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
    const size_t bytes = offsetof(spawner::Start, environment) + request.environment_bytes;
    for (bool again = false;; again = true) {
        Started started;
        Result<Answer> answer = ask(&request, bytes, descriptors, &started.process);
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
    const int failure = ask_plain(What::end, key, "").error;
    return failure == 0 || failure == ENOENT;
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
