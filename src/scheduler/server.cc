// SPDX-License-Identifier: Apache-2.0
#include "scheduler/server.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace rgpu::scheduler {
namespace {

using share::kSecond;

// What an event is of: in the three lowest bits of its number.
enum Kind : uint64_t { kTimer, kListening, kClient, kBell, kLine };
constexpr uint64_t kKinds = 8;

// A worker that waits for each of its kernels rings some thousand times a second.
constexpr int64_t kRingTime = kSecond / 10;
constexpr int kMostRings = 1000;
// Without workers and without rgpud; the next rgpud comes sooner.
constexpr int64_t kLonely = 10 * kSecond;
// With files that are kept for leases: workers that have no place here may count by them.
constexpr int64_t kLonelyWithFiles = 60 * kSecond;
constexpr size_t kMostClients = 8;

template <class Record> void append(std::vector<char> &bytes, const std::vector<Record> &records)
{
    const size_t at = bytes.size();
    bytes.resize(at + records.size() * sizeof(Record));
    if (!records.empty())
        memcpy(bytes.data() + at, records.data(), records.size() * sizeof(Record));
}

}  // namespace

Server::Server(Fd listening, Fd epoll, Fd timer, uid_t owner)
    : listening_(std::move(listening)), epoll_(std::move(epoll)), timer_(std::move(timer)),
      owner_(owner), lonely_since_(share::clock_now())
{}

Result<Server> Server::open(Fd listening, uid_t owner)
{
    Server server(std::move(listening), Fd(epoll_create1(EPOLL_CLOEXEC)),
                  Fd(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)), owner);
    if (!server.epoll_ || !server.timer_ || !server.watch(server.timer_.get(), EPOLLIN, kTimer) ||
        !server.watch(server.listening_.get(), EPOLLIN, kListening))
        return error(ErrorKind::internal, "%s", strerror(errno));
    return server;
}

bool Server::watch(int fd, uint32_t events, uint64_t what)
{
    epoll_event event{};
    event.events = events;
    event.data.u64 = what;
    return epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

bool Server::turn()
{
    epoll_event events[64];
    const int n = epoll_wait(epoll_.get(), events, 64, -1);
    int64_t now = share::clock_now();
    for (int i = 0; i < n; ++i) {
        const uint64_t what = events[i].data.u64, number = what / kKinds;
        uint64_t ticks;
        switch (what % kKinds) {
        case kTimer: armed_ = read(timer_.get(), &ticks, sizeof ticks) > 0 ? 0 : armed_; break;
        case kListening: accept_one(); break;
        case kClient: serve(number, now); break;
        case kBell: ring(number, now); break;
        case kLine: remove(number, now); break;
        default: break;
        }
    }
    if (unmute_at_ <= now) listen_again(now);
    look(now);
    if (!workers_.empty()) return true;
    if (told_to_end_ && kept_.empty()) return false;
    return !clients_.empty() || now < lonely_until();
}

int64_t Server::lonely_until() const
{
    return lonely_since_ + (kept_.empty() ? kLonely : kLonelyWithFiles);
}

// At the boards of which something is known, or whose time it is.
void Server::look(int64_t now)
{
    int64_t next = unmute_at_;
    for (auto &[uuid, gpu] : gpus_) {
        if (std::exchange(gpu.touched, false) || gpu.again <= now)
            gpu.again = gpu.board.look(share::clock_now());
        next = std::min(next, gpu.again);
    }
    if (workers_.empty() && clients_.empty()) next = std::min(next, lonely_until());
    if (next == armed_) return;
    armed_ = next;
    itimerspec when{};
    if (next != INT64_MAX)
        when.it_value = {std::max<int64_t>(next, 1) / kSecond,
                         std::max<int64_t>(next, 1) % kSecond};
    timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
}

void Server::accept_one()
{
    Fd client(accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    ucred who{};
    socklen_t size = sizeof who;
    if (!client || getsockopt(client.get(), SOL_SOCKET, SO_PEERCRED, &who, &size) != 0 ||
        who.uid != owner_)
        return;
    if (clients_.size() >= kMostClients) clients_.erase(clients_.begin());
    const uint64_t number = ++last_;
    if (watch(client.get(), EPOLLIN, number * kKinds + kClient))
        clients_.emplace(number, std::move(client));
}

void Server::serve(uint64_t number, int64_t now)
{
    auto client = clients_.find(number);
    if (client == clients_.end()) return;
    char bytes[sizeof(share::Request)];
    Fd brought;
    const ssize_t n = share::receive_message(client->second.get(), bytes, sizeof bytes, &brought);
    if (n < 0 && errno == EAGAIN) return;
    Answer to = n > 0 ? answer(bytes, static_cast<size_t>(n), now, std::move(brought)) : Answer();
    if (to.bytes.empty() || share::send_message(client->second.get(), to.bytes.data(),
                                                to.bytes.size(), to.descriptor.get()) != 0)
        drop(number, now);
}

void Server::drop(uint64_t number, int64_t now)
{
    clients_.erase(number);
    lonely_since_ = now;
}

Server::Gpu *Server::gpu(const std::string &uuid, int64_t now)
{
    auto found = gpus_.find(uuid);
    if (found == gpus_.end()) {
        if (uuid.empty() || gpus_.size() >= share::kMostGpus) return nullptr;
        found = gpus_.try_emplace(uuid, Gpu{share::Board(now)}).first;
    }
    return &found->second;
}

bool Server::keep(const std::string &lease, const std::string &name, Fd brought)
{
    if (!brought || lease.empty() || kept_.size() >= share::kMostKept) return false;
    kept_[{lease, name}] = std::move(brought);
    return true;
}

// A copy: it stays here.
Fd Server::kept(const std::string &lease, const std::string &name) const
{
    const auto found = kept_.find({lease, name});
    return Fd(found == kept_.end() ? -1 : fcntl(found->second.get(), F_DUPFD_CLOEXEC, 0));
}

Server::Answer Server::answer(const void *bytes, size_t size, int64_t now, Fd brought)
{
    share::Request request;
    Answer to;
    if (size != sizeof request) return to;
    memcpy(static_cast<void *>(&request), bytes, sizeof request);
    if (request.protocol != share::kProtocol) return to;
    const std::string lease = share::text_of(request.lease);
    share::Reply reply;
    reply.number = request.number;
    std::vector<share::TenantView> views;
    std::vector<share::Given> given;
    Gpu *gpu = nullptr;
    size_t told = 0;
    switch (request.ask) {
    case share::Ask::hello: told_to_end_ = false; break;
    case share::Ask::end: told_to_end_ = true; break;
    case share::Ask::end_lease:
        for (auto worker = workers_.begin(); worker != workers_.end();)
            if (const uint64_t number = (worker++)->first; workers_.at(number).lease == lease)
                remove(number, now);
        std::erase_if(kept_, [&](const auto &entry) { return entry.first.first == lease; });
        look(now);
        break;
    case share::Ask::keep:
        reply.failed = !keep(lease, share::text_of(request.gpu), std::move(brought));
        break;
    case share::Ask::kept:
        to.descriptor = kept(lease, share::text_of(request.gpu));
        reply.failed = !to.descriptor;
        break;
    case share::Ask::seat:
        if ((gpu = this->gpu(share::text_of(request.gpu), now)); gpu && !lease.empty())
            if (Result<Fd> socket = seat(*gpu, lease, request, now)) {
                to.descriptor = std::move(*socket);
                make_room(*gpu, lease, request.most, now);
            }
        reply.failed = !to.descriptor;
        break;
    case share::Ask::change:
        gpu = this->gpu(share::text_of(request.gpu), now);
        reply.failed = !gpu || lease.empty();
        if (reply.failed) break;
        told = gpu->board.change(lease, request.terms, request.memory, now);
        gpu->touched = true;
        break;
    case share::Ask::view:
    case share::Ask::collect:
        gpu = this->gpu(share::text_of(request.gpu), now);
        reply.failed = !gpu;
        if (gpu && request.ask == share::Ask::view) views = gpu->board.view(now);
        if (gpu && request.ask == share::Ask::collect) given = gpu->board.collect(now);
        if (gpu) gpu->touched = true;
        break;
    default: reply.failed = 2;
    }
    reply.count = static_cast<uint32_t>(views.size() + given.size() + told);
    reply.workers = static_cast<uint32_t>(workers_.size());
    append(to.bytes, std::vector<share::Reply>{reply});
    append(to.bytes, views);
    append(to.bytes, given);
    return to;
}

Result<Fd> Server::seat(Gpu &gpu, const std::string &lease, const share::Request &request,
                        int64_t now)
{
    Result<share::Ends> opened = share::open_ends();
    if (!opened) return std::move(opened).error();
    Result<uint64_t> seat =
        gpu.board.open(lease, request.terms, std::move(opened->desk), request.memory);
    if (!seat) return std::move(seat).error();
    const uint64_t number = ++last_;
    Worker &worker = workers_
                         .emplace(number, Worker{&gpu, *seat, lease, std::move(opened->bell),
                                                 std::move(opened->line)})
                         .first->second;
    if (!watch(worker.bell.get(), EPOLLIN | EPOLLET, number * kKinds + kBell) ||
        !watch(worker.line.get(), 0, number * kKinds + kLine)) {
        remove(number, now);
        return error(ErrorKind::exhausted, "%s", strerror(errno));
    }
    return std::move(opened->socket);
}

// A place whose worker has ended is free once nobody has its socket, and somebody of the tenant's
// may have.
void Server::make_room(const Gpu &gpu, const std::string &lease, uint32_t most, int64_t now)
{
    std::vector<uint64_t> seats;  // by age
    for (const auto &[number, worker] : workers_)
        if (worker.gpu == &gpu && worker.lease == lease) seats.push_back(number);
    for (size_t i = 0; i + std::max(most, 1U) < seats.size(); ++i) remove(seats[i], now);
}

void Server::ring(uint64_t number, int64_t now)
{
    auto worker = workers_.find(number);
    if (worker == workers_.end()) return;
    Rings &rings = rings_[worker->second.lease];
    if (now - rings.since >= kRingTime && !rings.muted) rings = {now, 0, false};
    if (++rings.count > kMostRings) {
        // One that is still heard, of several: it is not from now on.
        rings.muted = true;
        epoll_event event{};
        event.events = 0;
        event.data.u64 = number * kKinds + kBell;
        epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, worker->second.bell.get(), &event);
        unmute_at_ = std::min(unmute_at_, rings.since + kRingTime);
        return;
    }
    worker->second.gpu->touched = true;
}

void Server::listen_again(int64_t now)
{
    unmute_at_ = INT64_MAX;
    for (auto &[number, worker] : workers_) {
        Rings &rings = rings_[worker.lease];
        if (!rings.muted) continue;
        if (rings.since + kRingTime > now) {
            unmute_at_ = std::min(unmute_at_, rings.since + kRingTime);
            continue;
        }
        // EPOLL_CTL_MOD tells of what rang meanwhile.
        epoll_event event{};
        event.events = EPOLLIN | EPOLLET;
        event.data.u64 = number * kKinds + kBell;
        epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, worker.bell.get(), &event);
    }
    for (auto &[lease, rings] : rings_)
        if (rings.muted && rings.since + kRingTime <= now) rings = {now, 0, false};
}

// The tenant may have the bell open still: what is closed here must be unwatched before.
void Server::remove(uint64_t number, int64_t now)
{
    auto found = workers_.find(number);
    if (found == workers_.end()) return;
    Worker &worker = found->second;
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, worker.bell.get(), nullptr);
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, worker.line.get(), nullptr);
    worker.gpu->board.close(worker.seat, now);
    worker.gpu->touched = true;
    const std::string lease = std::move(worker.lease);
    workers_.erase(found);
    lonely_since_ = now;
    if (std::none_of(workers_.begin(), workers_.end(),
                     [&](const auto &entry) { return entry.second.lease == lease; }))
        rings_.erase(lease);
}

}  // namespace rgpu::scheduler
