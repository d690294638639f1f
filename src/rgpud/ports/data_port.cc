#include "rgpud/ports/data_port.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>

#include "net/handshake/handshake.h"
#include "net/transport/pacing.h"
#include "net/transport/socket.h"
#include "util/log.h"
#include "wire/lease_name.h"

namespace rgpu::serverd {

DataPort::DataPort(const RgpudConfig &config, Service &service, Metrics &metrics)
    : config_(config), service_(service), metrics_(metrics),
      newcomers_(static_cast<size_t>(config.max_silent_of_address)),
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
    new_holder_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!stopping_ || !new_holder_)
        return error(ErrorKind::exhausted, "no eventfd: %s", strerror(errno));
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

void DataPort::serve()
{
    for (;;) {
        std::vector<pollfd> looks = {{listening_.get(), POLLIN, 0},
                                     {stopping_.get(), POLLIN, 0},
                                     {new_holder_.get(), POLLIN, 0}};
        {
            std::lock_guard lock(mutex_);
            for (const auto &[fd, holder] : holders_) looks.push_back({fd, POLLIN, 0});
        }
        if (poll(looks.data(), looks.size(), -1) <= 0) continue;
        if (looks[1].revents & POLLIN) return;
        uint64_t count;
        if (looks[2].revents) (void)!read(new_holder_.get(), &count, sizeof count);
        look_at_holders(looks);
        if (looks[0].revents) take_one();
    }
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
    uint64_t one = 1;
    (void)!write(new_holder_.get(), &one, sizeof one);
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
    std::string peer = net::peer_name(socket.get()), origin = origin_of(socket.get());
    std::unique_lock lock(mutex_);
    // Those that were closed need a moment to end: who comes then waits in the kernel's queue, and
    // is not refused for them.
    constexpr Milliseconds kMoment{200};
    ended_.wait_for(lock, kMoment, [this] { return handshakes_ < 2 * config_.max_handshakes; });
    if (!make_room(origin)) {
        log_warning("data port: %s refused: %lld handshakes are under way ([rgpud] max_handshakes)",
                    peer.c_str(), static_cast<long long>(handshakes_));
        metrics_.handshake_refused();
        return;
    }
    const uint64_t id = newcomers_.add(origin);
    const int fd = socket.get();
    try {
        std::thread([this, socket = std::move(socket), peer, id]() mutable {
            std::function<void()> then;
            shake_hands(socket, peer, then);
            std::unique_lock lock(mutex_);
            unproved_.erase(id);
            newcomers_.remove(id);
            socket.reset();
            --handshakes_;
            if (then) {
                lock.unlock();
                then();
                lock.lock();
            }
            // Told under the lock: after it, this object may be gone.
            --threads_;
            ended_.notify_all();
        }).detach();
        ++handshakes_, ++threads_;  // the thread cannot have ended before: the lock is held
        unproved_[id] = fd;
    } catch (const std::system_error &failure) {
        newcomers_.remove(id);
        log_error("data port: %s refused: no thread: %s", peer.c_str(), failure.what());
    }
}

// Under the lock. Whoever connects and says nothing must not keep others out: one who proves a
// lease needs a round trip, so the oldest that has not is hardly one of them. Its thread ends at
// once; of threads that still have something to do there are never more than as many again.
bool DataPort::make_room(const std::string &origin)
{
    if (handshakes_ >= 2 * config_.max_handshakes) return false;
    const bool full = static_cast<int64_t>(newcomers_.size()) >= config_.max_handshakes;
    std::optional<uint64_t> oldest = newcomers_.in_the_way_of(origin, full);
    if (!oldest) return true;
    const int fd = unproved_.at(*oldest);
    log_warning("data port: %s refused: it has proved nothing, and others wait ([rgpud] %s)",
                net::peer_name(fd).c_str(), full ? "max_handshakes" : "max_silent_of_address");
    metrics_.handshake_refused();
    shutdown(fd, SHUT_RDWR);
    unproved_.erase(*oldest);
    newcomers_.remove(*oldest);
    return true;
}

// `then`: what is left to do when the client has what it came for.
void DataPort::shake_hands(Fd &socket, const std::string &peer, std::function<void()> &then)
{
    auto deadline = net::Clock::now() + config_.handshake_timeout;
    auto lookup = [this](const std::string &name) {
        auto lease = wire::parse_lease_name(name);
        return lease ? service_.secret(lease->lease) : std::nullopt;
    };
    Result<net::Client> client = net::server_handshake(socket.get(), lookup, deadline,
                                                       {.encrypt = config_.encrypt,
                                                        .shared = config_.transport != "tcp",
                                                        .ucx = offers_ucx(config_)});
    bool made_room = false;
    {
        std::lock_guard lock(mutex_);
        auto own = std::find_if(unproved_.begin(), unproved_.end(),
                                [&](const auto &entry) { return entry.second == socket.get(); });
        made_room = own == unproved_.end();
        if (!made_room) {  // proved, or refused: it is nobody's to close any more
            newcomers_.remove(own->first);
            unproved_.erase(own);
        }
    }
    if (made_room) return;  // said already
    if (!client) {
        log_warning("data port: %s refused: %s", peer.c_str(), client.error().text.c_str());
        metrics_.handshake_refused();
        return;
    }
    wire::LeaseName name = wire::parse_lease_name(client->lease).value_or(wire::LeaseName{});
    std::string who = peer + " (pid " + std::to_string(client->pid) + " on " + client->host + ")";
    if (client->purpose == wire::Purpose::hold) return hold(std::move(socket), name.lease);
    if (client->purpose == wire::Purpose::lane) {
        if (Result<void> given = service_.give_lane(name.lease, client->table_digest, socket);
            !given)
            log_warning("data port: %s refused as a lane: lease %s: %s", who.c_str(),
                        short_id(name.lease).c_str(), given.error().text.c_str());
        return;
    }
    start(name.lease, std::move(socket), {who, client->table_digest, client->key, name.gpus}, then);
}

// One whose lease has started too many at once waits, and no thread with it.
void DataPort::start(const std::string &lease, Fd socket, const Peer &peer,
                     std::function<void()> &then)
{
    const auto kept = std::make_shared<Fd>(std::move(socket));
    const auto begin = [this, lease, kept, peer] {
        return service_.start_worker(lease, std::move(*kept), peer);
    };
    const Starts::Turn turn = starts_.take(lease, [this, lease, begin, who = peer.who] {
        if (Result<Fd> started = begin(); started)
            service_.start_next(lease, {});
        else
            refuse(who, lease, started.error());
    });
    if (turn == Starts::Turn::later) return;
    Result<Fd> started =
        turn == Starts::Turn::never
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
    log_warning("data port: %s refused: lease %s: %s", who.c_str(), short_id(lease).c_str(),
                error.text.c_str());
    metrics_.handshake_refused();
}

}  // namespace rgpu::serverd
