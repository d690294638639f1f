// SPDX-License-Identifier: Apache-2.0
#include "rgpud/ports/data_port.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <set>
#include <system_error>

#include "net/transport/pacing.h"
#include "net/transport/socket.h"
#include "util/log.h"
#include "wire/lease_name.h"

namespace rgpu::serverd {

DataPort::DataPort(const RgpudConfig &config, Service &service, Metrics &metrics, Audit &audit)
    : config_(config), service_(service), metrics_(metrics), audit_(audit),
      ucx_(offers_ucx(config)), newcomers_(static_cast<size_t>(config.max_silent_of_address)),
      starts_(static_cast<int>(config.worker_starts), static_cast<int>(config.max_workers))
{}

DataPort::~DataPort() { stop(); }

Result<int> DataPort::bind()
{
    bool v6 = config_.listen.find(':') != std::string::npos;
    std::string address = (v6 ? "[" + config_.listen + "]" : config_.listen) + ":" +
                          std::to_string(config_.data_port);
    Result<Fd> socket = net::listen(address);
    if (!socket) return std::move(socket).error().in("[rgpud] listen and data_port in rgpu.conf");
    listening_ = std::move(*socket);
    return net::local_port(listening_.get());
}

Result<void> DataPort::start()
{
    stopping_ = Fd(eventfd(0, EFD_CLOEXEC));
    wake_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!stopping_ || !wake_) return error(ErrorKind::exhausted, "no eventfd: %s", strerror(errno));
    thread_ = std::thread([this] { serve(); });
    return {};
}

void DataPort::stop()
{
    if (!thread_.joinable()) return;
    uint64_t one = 1;
    [[maybe_unused]] ssize_t n = write(stopping_.get(), &one, sizeof one);
    thread_.join();
    starts_.stop();
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [this] { return threads_ == 0; });
}

void DataPort::wake()
{
    uint64_t one = 1;
    (void)!write(wake_.get(), &one, sizeof one);
}

void DataPort::serve()
{
    for (;;) {
        std::vector<pollfd> looks = what_to_look_at();
        // The oldest one's time is over first.
        int timeout = -1;
        if (!strangers_.empty())
            timeout = static_cast<int>(
                std::clamp<int64_t>(std::chrono::ceil<Milliseconds>(
                                        strangers_.begin()->second.deadline - net::Clock::now())
                                        .count(),
                                    0, 60'000));
        if (poll(looks.data(), looks.size(), timeout) < 0) continue;
        if (looks[1].revents & POLLIN) return;
        uint64_t count;
        if (looks[2].revents) (void)!read(wake_.get(), &count, sizeof count);
        look_at_holders(looks);
        look_at_strangers(looks);
        close_late();
        if (looks[0].revents) take_one();
    }
}

// While too many have proved a lease and wait for a worker, nobody else does: that takes a thread.
std::vector<pollfd> DataPort::what_to_look_at()
{
    std::vector<pollfd> looks = {
        {listening_.get(), POLLIN, 0}, {stopping_.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}};
    std::lock_guard lock(mutex_);
    for (const auto &[fd, holder] : holders_) looks.push_back({fd, POLLIN, 0});
    if (starting_ < config_.max_handshakes)
        for (const auto &[id, stranger] : strangers_)
            looks.push_back({stranger.socket.get(), POLLIN, 0});
    return looks;
}

// A holder says nothing: whatever comes is its end.
void DataPort::look_at_holders(const std::vector<pollfd> &looks)
{
    for (size_t i = 3; i < looks.size(); ++i) {
        if (!looks[i].revents) continue;
        std::unique_lock lock(mutex_);
        auto holder = holders_.find(looks[i].fd);
        if (holder == holders_.end()) continue;
        std::string lease = std::move(holder->second.second);
        holders_.erase(holder);
        lock.unlock();
        service_.holder_gone(lease);
    }
}

void DataPort::hold(Fd socket, const std::string &lease)
{
    service_.holder_here(lease);
    // A holder whose host is gone is noticed, too.
    int yes = 1, idle = 20, interval = 5, count = 3;
    setsockopt(socket.get(), SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
    setsockopt(socket.get(), IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(socket.get(), IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    setsockopt(socket.get(), IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
    std::lock_guard lock(mutex_);
    // One for each lease: of two, the later.
    std::erase_if(holders_, [&](const auto &holder) { return holder.second.second == lease; });
    int fd = socket.get();
    holders_[fd] = {std::move(socket), lease};
    wake();
}

net::Terms DataPort::terms_of(int socket) const
{
    const bool encrypt = config_.encrypt == "true" ||
                         (config_.encrypt == "auto" && !net::on_one_host(socket));
    return {.encrypt = encrypt, .shared = config_.transport != "tcp", .ucx = ucx_};
}

void DataPort::take_one()
{
    Fd socket(accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket) {
        bool transient = errno == EINTR || errno == ECONNABORTED || errno == EAGAIN;
        if (!transient) {
            log_error("data port: accept: %s", strerror(errno));
            std::this_thread::sleep_for(
                Milliseconds(100));  // out of descriptors or memory: no busy loop
        }
        return;
    }
    net::send_unpaced_on_one_host(socket.get());
    const std::string origin = origin_of(socket.get());
    make_room(origin);
    Stranger stranger;
    stranger.peer = net::peer_name(socket.get());
    stranger.deadline = net::Clock::now() + config_.handshake_timeout;
    stranger.terms = terms_of(socket.get());
    // A connection that has sent nothing takes it at once.
    Result<wire::ServerHello> greeting =
        net::greet(socket.get(), stranger.terms, net::Clock::now());
    if (!greeting) {
        strangers_said_.warn("%s refused: %s", stranger.peer.c_str(),
                             greeting.error().text.c_str());
        metrics_.handshake_refused();
        return;
    }
    stranger.greeting = *greeting;
    stranger.socket = std::move(socket);
    strangers_.emplace(newcomers_.add(origin), std::move(stranger));
}

void DataPort::forget(uint64_t stranger)
{
    strangers_.erase(stranger);
    newcomers_.remove(stranger);
}

// Whoever connects and says nothing must not keep others out: one who proves a lease needs a round
// trip, so the oldest that has not is hardly one of them.
void DataPort::make_room(const std::string &origin)
{
    const bool full = static_cast<int64_t>(newcomers_.size()) >= config_.max_handshakes;
    std::optional<uint64_t> oldest = newcomers_.in_the_way_of(origin, full);
    if (!oldest) return;
    strangers_said_.warn("%s refused: it has proved nothing, and others wait ([rgpud] %s)",
                         strangers_.at(*oldest).peer.c_str(),
                         full ? "max_handshakes" : "max_silent_of_address");
    metrics_.handshake_refused();
    forget(*oldest);
}

void DataPort::close_late()
{
    while (!strangers_.empty() && strangers_.begin()->second.deadline <= net::Clock::now()) {
        strangers_said_.warn("%s refused: nothing came within %s",
                             strangers_.begin()->second.peer.c_str(),
                             format_duration(config_.handshake_timeout).c_str());
        metrics_.handshake_refused();
        forget(strangers_.begin()->first);
    }
}

// True: it is whole, or there will be none.
bool DataPort::read_hello(Stranger &stranger)
{
    const ssize_t n = recv(stranger.socket.get(),
                           reinterpret_cast<char *>(&stranger.hello) + stranger.got,
                           sizeof stranger.hello - stranger.got, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (n > 0) stranger.got += static_cast<size_t>(n);
    return n <= 0 || stranger.got == sizeof stranger.hello;
}

void DataPort::look_at_strangers(const std::vector<pollfd> &looks)
{
    std::set<int> ready;
    for (const pollfd &look : looks)
        if (look.revents) ready.insert(look.fd);
    for (auto at = strangers_.begin(); at != strangers_.end();) {
        const uint64_t id = at->first;
        Stranger &stranger = (at++)->second;
        if (!ready.count(stranger.socket.get()) || !read_hello(stranger)) continue;
        Stranger known = std::move(stranger);
        forget(id);  // proved, or refused: it is in nobody's way any more
        prove(std::move(known));
    }
}

void DataPort::prove(Stranger stranger)
{
    const auto lookup = [this](const std::string &name) {
        auto lease = wire::parse_lease_name(name);
        return lease ? service_.secret(lease->lease) : std::nullopt;
    };
    constexpr Milliseconds kMoment{200};  // what is answered fits in an empty connection
    Result<net::Client> client =
        stranger.got == sizeof stranger.hello
            ? net::answer_hello(stranger.socket.get(), stranger.greeting, stranger.hello, lookup,
                                stranger.terms, net::Clock::now() + kMoment)
            : Result<net::Client>(error(ErrorKind::disconnected, "the peer has closed"));
    if (!client) {
        audit_.say({.act = Audit::kRefuse,
                    .what = "data connection",
                    .why = client.error().text,
                    .from = stranger.peer});
        strangers_said_.warn("%s refused: %s", stranger.peer.c_str(), client.error().text.c_str());
        metrics_.handshake_refused();
        return;
    }
    std::lock_guard lock(mutex_);
    try {
        std::thread([this, client = *client, socket = std::move(stranger.socket),
                     peer = stranger.peer]() mutable {
            std::function<void()> then;
            serve_client(std::move(socket), client, peer, then);
            std::unique_lock lock(mutex_);
            --starting_;
            wake();
            if (then) {
                lock.unlock();
                then();
                lock.lock();
            }
            // Told under the lock: after it, this object may be gone.
            --threads_;
            ended_.notify_all();
        }).detach();
        ++threads_, ++starting_;  // the thread cannot have ended before: the lock is held
    } catch (const std::system_error &failure) {
        log_error("data port: %s refused: no thread: %s", stranger.peer.c_str(), failure.what());
    }
}

// `then`: what is left to do when the client has what it came for.
void DataPort::serve_client(Fd socket, const net::Client &client, const std::string &peer,
                            std::function<void()> &then)
{
    wire::LeaseName name = wire::parse_lease_name(client.lease).value_or(wire::LeaseName{});
    std::string who = peer + " (pid " + std::to_string(client.pid) + " on " + client.host + ")";
    if (client.purpose == wire::Purpose::hold) return hold(std::move(socket), name.lease);
    if (client.purpose == wire::Purpose::lane) {
        if (Result<void> given = service_.give_lane(name.lease, client.table_digest, socket);
            !given)
            clients_said_.warn("%s refused as a lane: lease %s: %s", who.c_str(),
                               short_id(name.lease).c_str(), given.error().text.c_str());
        return;
    }
    start(name.lease, std::move(socket), {who, client.table_digest, client.key, name.gpus}, then);
}

// One whose lease has started too many at once waits, and no thread with it.
void DataPort::start(const std::string &lease, Fd socket, const Peer &peer,
                     std::function<void()> &then)
{
    const auto kept = std::make_shared<Fd>(std::move(socket));
    const auto begin = [this, lease, kept, peer] {
        return service_.start_worker(lease, std::move(*kept), peer);
    };
    const Starts::Verdict verdict = starts_.take(lease, [this, lease, begin, who = peer.who] {
        if (Result<Fd> started = begin(); started)
            service_.start_next(lease, {});
        else
            refuse(who, lease, started.error());
    });
    if (verdict == Starts::Verdict::later) return;
    Result<Fd> started =
        verdict == Starts::Verdict::never
            ? error(ErrorKind::exhausted,
                    "too many of its programs wait for a worker ([rgpud] worker_starts)")
            : begin();
    if (!started) return refuse(peer.who, lease, started.error());
    then = [this, lease, taken = std::make_shared<Fd>(std::move(*started))] {
        service_.start_next(lease, std::move(*taken));
    };
}

void DataPort::refuse(const std::string &who, const std::string &lease, const Error &error)
{
    clients_said_.warn("%s refused: lease %s: %s", who.c_str(), short_id(lease).c_str(),
                       error.text.c_str());
    metrics_.handshake_refused();
}

}  // namespace rgpu::serverd
