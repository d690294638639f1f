// SPDX-License-Identifier: Apache-2.0
#include "rgpud/host/boards.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>

#include "rgpud/host/process.h"
#include "share/protocol.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/sha256.h"

namespace rgpu::serverd {
namespace {

constexpr const char *kSocket = "scheduler.socket";
constexpr Milliseconds kAnswer{200}, kFirstAnswer{5000};
// After it did not answer, and after it had to be started.
constexpr Milliseconds kRest{1000};

// Beside the worker, where all are installed; beside this rgpud in its build tree, where the worker
// is another's.
std::string program(const std::string &worker)
{
    char self[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    const std::string exe(self, static_cast<size_t>(std::max<ssize_t>(n, 0)));
    std::string in_workers_folder = worker.substr(0, worker.rfind('/') + 1) + "rgpu-scheduler";
    for (const std::string &path :
         {in_workers_folder, exe.substr(0, exe.rfind('/') + 1) + "../libexec/rgpu-scheduler"})
        if (access(path.c_str(), X_OK) == 0) return path;
    return in_workers_folder;
}

share::Request about(share::Ask ask, const std::string &gpu_or_name, const std::string &lease,
                     share::Terms terms)
{
    share::Request request;
    request.ask = ask;
    strncpy(request.gpu, gpu_or_name.c_str(), sizeof request.gpu - 1);
    strncpy(request.lease, lease.c_str(), sizeof request.lease - 1);
    request.terms = terms;
    return request;
}

Error failed(const char *doing)
{
    return error(ErrorKind::internal, "the scheduler's socket: %s: %s", doing, strerror(errno));
}

// A place at which nobody answers.
Fd nobody()
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return {};
    close(ends[0]);
    return Fd(ends[1]);
}

}  // namespace

std::string memory_path(const std::string &state_dir, const std::string &name)
{
    char real[PATH_MAX];
    std::string dir = realpath(state_dir.c_str(), real) ? real : state_dir;
    Sha256 hash;
    hash.add(dir.data(), dir.size());
    auto digest = hash.digest();
    return "/dev/shm/rgpu-" + to_hex(digest.data(), 8) + "-" + name;
}

// The connection, under one lock.
class Boards::Link {
public:
    using Name = std::pair<std::string, std::string>;  // of a lease, and its own

    Link(Fd dir, std::string program, std::vector<std::string> uuids)
        : dir_(std::move(dir)), program_(std::move(program)), uuids_(std::move(uuids))
    {}
    ~Link();

    Result<void> connect();
    struct Answer {
        share::Reply reply;
        std::vector<char> rest;
        Fd descriptor;
    };
    Result<Answer> ask(share::Request request, Time until, int brings = -1);
    Result<Answer> ask_gpu(share::Ask, const std::string &uuid, const std::string &lease,
                           share::Terms, Time until, int brings = -1);
    // Of the leases in `unsaid_`. Those that the scheduler does not answer about stay there.
    void say_ends(Time until);
    // Gives the scheduler a file of `kept_`. False where it does not answer: it is still owed.
    bool hand_over(const Name &name, Time until);

    std::mutex mutex_;
    const Fd dir_;
    const std::string program_;
    const std::vector<std::string> uuids_;
    std::vector<Gpu> seen_;
    std::set<std::string> unsaid_;  // leases that have ended
    std::map<Name, Fd> kept_;
    std::set<Name> owed_;  // of kept_: what a scheduler that was started since has not got

private:
    Result<void> start();
    Result<Answer> exchange(share::Request &request, Time until, int brings = -1);
    sockaddr_un address() const;

    Fd socket_;
    pid_t child_ = 0;
    uint64_t number_ = 0;
    Time rest_until_ = Time::min();
    bool rests_ = false;
};

Boards::Link::~Link()
{
    share::Request end;
    end.ask = share::Ask::end;
    if (socket_) share::send_message(socket_.get(), &end, sizeof end);
}

// However long the directory's name is.
sockaddr_un Boards::Link::address() const
{
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%s", dir_.get(), kSocket);
    return address;
}

// To one that is there, else to a new one.
Result<void> Boards::Link::connect()
{
    if (child_ && waitpid(child_, nullptr, WNOHANG) != 0) child_ = 0;
    if (socket_) return {};
    const sockaddr_un address = this->address();
    share::Request hello;
    for (const bool started : {false, true}) {
        if (started)
            if (Result<void> done = start(); !done) return done;
        Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        if (::connect(socket.get(), reinterpret_cast<const sockaddr *>(&address), sizeof address) !=
            0) {
            if (started || errno == EAGAIN) return failed("connect");
            continue;
        }
        socket_ = std::move(socket);
        Result<Answer> here = exchange(hello, now() + (started ? kFirstAnswer : kAnswer));
        if (here) return {};
        // Another version's, or one that is about to end: it is left to its workers. One that is
        // slow may answer the next time.
        if (started || here.error().kind != ErrorKind::disconnected)
            return here.error().kind == ErrorKind::unavailable ? Result<void>()
                                                               : std::move(here).error();
    }
    return {};
}

Result<void> Boards::Link::start()
{
    const sockaddr_un address = this->address();
    Fd listening(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    unlinkat(dir_.get(), kSocket, 0);
    // A socket's mode is that of its descriptor when it is bound: nobody else's process comes in
    // between.
    if (!listening || fchmod(listening.get(), 0600) != 0 ||
        bind(listening.get(), reinterpret_cast<const sockaddr *>(&address), sizeof address) != 0 ||
        listen(listening.get(), 16) != 0)
        return failed("bind");
    Launch what;
    what.command = {program_, std::to_string(geteuid())};
    what.descriptors = {listening.get()};
    Result<pid_t> pid = launch(what);
    if (!pid) return std::move(pid).error();
    child_ = *pid;
    for (const auto &[name, file] : kept_) owed_.insert(name);
    log_debug("rgpu-scheduler %d is started", child_);
    return {};
}

// Fails with `disconnected` when it is gone, with `unavailable` when it does not answer in time.
Result<Boards::Link::Answer> Boards::Link::exchange(share::Request &request, Time until, int brings)
{
    request.number = ++number_;
    if (const int why = share::send_message(socket_.get(), &request, sizeof request, brings);
        why && why != EAGAIN) {
        socket_.reset();
        return error(ErrorKind::disconnected, "rgpu-scheduler has ended: %s", strerror(why));
    } else if (why) {
        return error(ErrorKind::unavailable, "rgpu-scheduler does not read what it is asked");
    }
    std::vector<char> bytes(share::kMostReply);
    for (;;) {
        pollfd look{socket_.get(), POLLIN, 0};
        const auto left =
            static_cast<int>(std::max<int64_t>(0, Milliseconds(until - now()).count()));
        if (poll(&look, 1, left) == 0)
            return error(ErrorKind::unavailable, "rgpu-scheduler does not answer");
        Answer answer;
        const ssize_t n =
            share::receive_message(socket_.get(), bytes.data(), bytes.size(), &answer.descriptor);
        if (n < 0 && errno == EAGAIN) continue;
        if (n < static_cast<ssize_t>(sizeof answer.reply)) {
            socket_.reset();
            return error(ErrorKind::disconnected, "rgpu-scheduler has ended");
        }
        memcpy(static_cast<void *>(&answer.reply), bytes.data(), sizeof answer.reply);
        if (answer.reply.number != request.number) continue;  // nobody waits for that one any more
        answer.rest.assign(bytes.data() + sizeof answer.reply, bytes.data() + n);
        return answer;
    }
}

Result<Boards::Link::Answer> Boards::Link::ask(share::Request request, Time until, int brings)
{
    const Time time = now();
    if (time < rest_until_) return error(ErrorKind::unavailable, "rgpu-scheduler did not answer");
    Result<Answer> answer = error(ErrorKind::unavailable, "not asked");
    for (int tries = 0; tries < 2; ++tries) {
        Result<void> there = connect();
        if (there) std::erase_if(owed_, [&](const Name &name) { return hand_over(name, until); });
        answer = there ? exchange(request, until, brings)
                       : Result<Answer>(std::move(there).error());
        if (answer || answer.error().kind != ErrorKind::disconnected) break;
        log_error("%s; a new one is started, and the workers of before go on without turns",
                  answer.error().text.c_str());
    }
    if (!answer) {
        if (!std::exchange(rests_, true))
            log_error("%s; what is shown of the sharing of GPUs is older than it should be",
                      answer.error().text.c_str());
        rest_until_ = now() + kRest;
    } else if (std::exchange(rests_, false)) {
        log_info("rgpu-scheduler answers again");
    }
    return answer;
}

bool Boards::Link::hand_over(const Name &name, Time until)
{
    share::Request request = about(share::Ask::keep, name.second, name.first, {});
    Result<Answer> answer = exchange(request, until, kept_.at(name).get());
    if (answer && answer->reply.failed)
        log_warning("lease %s: rgpu-scheduler was started anew and does not keep \"%s\"",
                    short_id(name.first).c_str(), name.second.c_str());
    return answer.has_value();
}

Result<Boards::Link::Answer> Boards::Link::ask_gpu(share::Ask ask, const std::string &uuid,
                                                   const std::string &lease, share::Terms terms,
                                                   Time until, int brings)
{
    return this->ask(about(ask, uuid, lease, terms), until, brings);
}

void Boards::Link::say_ends(Time until)
{
    std::erase_if(unsaid_, [&](const std::string &lease) {
        return ask_gpu(share::Ask::end_lease, {}, lease, {}, until).has_value();
    });
}

namespace {

template <class Record> std::vector<Record> records(const std::vector<char> &bytes)
{
    std::vector<Record> all(bytes.size() / sizeof(Record));
    if (!all.empty())
        memcpy(static_cast<void *>(all.data()), bytes.data(), all.size() * sizeof(Record));
    return all;
}

}  // namespace

Boards::Boards(std::unique_ptr<Link> link) : link_(std::move(link)) {}
Boards::Boards(Boards &&) noexcept = default;
Boards::~Boards() = default;

Result<Boards> Boards::open(const std::string &state_dir, const std::string &worker,
                            const std::vector<std::string> &uuids)
{
    Fd dir(::open(state_dir.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!dir) return error(ErrorKind::internal, "%s: %s", state_dir.c_str(), strerror(errno));
    auto link = std::make_unique<Link>(std::move(dir), program(worker), uuids);
    if (Result<void> connected = link->connect(); !connected) return std::move(connected).error();
    for (const std::string &uuid : uuids) link->seen_.push_back({uuid, {}});
    return Boards(std::move(link));
}

std::optional<size_t> Boards::change(const std::string &uuid, const std::string &lease,
                                     share::Terms terms, uint64_t memory) const
{
    std::lock_guard lock(link_->mutex_);
    share::Request request = about(share::Ask::change, uuid, lease, terms);
    request.memory = memory;
    Result<Link::Answer> answer = link_->ask(request, now() + kAnswer);
    if (!answer || answer->reply.failed) return std::nullopt;
    return answer->reply.count;
}

Fd Boards::seat(const std::string &uuid, const std::string &lease, share::Terms terms,
                uint64_t memory, int most) const
{
    std::lock_guard lock(link_->mutex_);
    share::Request request = about(share::Ask::seat, uuid, lease, terms);
    request.memory = memory;
    request.most = static_cast<uint32_t>(std::max(most, 1));
    Result<Link::Answer> answer = link_->ask(request, now() + kAnswer);
    if (answer && answer->descriptor) return std::move(answer->descriptor);
    log_warning("lease %.8s: a worker goes without turns on GPU %s: %s", lease.c_str(),
                uuid.c_str(),
                answer ? "the scheduler has no place for it" : answer.error().text.c_str());
    return nobody();
}

bool Boards::keep(const std::string &lease, const std::string &name, Fd file) const
{
    std::lock_guard lock(link_->mutex_);
    const Fd &here = link_->kept_[{lease, name}] = std::move(file);
    Result<Link::Answer> answer =
        link_->ask_gpu(share::Ask::keep, name, lease, {}, now() + kAnswer, here.get());
    return answer && !answer->reply.failed;
}

Fd Boards::file_of(const std::string &lease, const std::string &name) const
{
    std::lock_guard lock(link_->mutex_);
    auto at = link_->kept_.find({lease, name});
    if (at == link_->kept_.end()) {
        Result<Link::Answer> answer =
            link_->ask_gpu(share::Ask::kept, name, lease, {}, now() + kAnswer);
        if (!answer || !answer->descriptor) return {};
        at = link_->kept_.emplace(Link::Name{lease, name}, std::move(answer->descriptor)).first;
    }
    const std::string path = "/proc/self/fd/" + std::to_string(at->second.get());
    return Fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
}

void Boards::end_lease(const std::string &lease) const
{
    std::lock_guard lock(link_->mutex_);
    link_->unsaid_.insert(lease);
    std::erase_if(link_->kept_, [&](const auto &file) { return file.first.first == lease; });
    std::erase_if(link_->owed_, [&](const Link::Name &name) { return name.first == lease; });
    link_->say_ends(now() + kAnswer);
}

std::vector<Boards::Gpu> Boards::view() const
{
    std::lock_guard lock(link_->mutex_);
    const Time until = now() + kAnswer;
    for (Gpu &gpu : link_->seen_)
        if (Result<Link::Answer> answer = link_->ask_gpu(share::Ask::view, gpu.uuid, {}, {}, until))
            gpu.tenants = records<share::TenantView>(answer->rest);
    return link_->seen_;
}

std::vector<Boards::Busy> Boards::collect() const
{
    std::lock_guard lock(link_->mutex_);
    std::vector<Busy> all;
    const Time until = now() + kAnswer;
    link_->say_ends(until);
    for (const std::string &uuid : link_->uuids_)
        if (Result<Link::Answer> answer = link_->ask_gpu(share::Ask::collect, uuid, {}, {}, until))
            for (const share::Given &given : records<share::Given>(answer->rest))
                all.push_back({uuid, share::text_of(given.lease), given.nanoseconds});
    return all;
}

}  // namespace rgpu::serverd
