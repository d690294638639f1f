// SPDX-License-Identifier: Apache-2.0
#include "rgpud/ports/request_gate.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "util/defaults.h"
#include "util/log.h"
#include "util/units.h"

namespace rgpu::serverd {
namespace {

// A closed connection's peer may still be sending; it would lose the answer (RFC 9112, 9.6).
constexpr Milliseconds kLinger{1000};
constexpr Milliseconds kBetweenLines{10000};
constexpr int kRequestsOfConnection = 100;
constexpr int kEvents = 64;
constexpr size_t kPiece = 16 * 1024;
constexpr const char *kNeedsTls =
    "this server takes TLS alone ([rgpud] tls): its [[server]] in rgpu.conf needs a pin, which "
    "rgpu pin NAME shows";

// Workers, their sockets and leases need descriptors, too.
size_t most_connections()
{
    rlimit files{};
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == RLIM_INFINITY)
        return defaults::kControlConnections;
    return std::clamp<size_t>(files.rlim_cur / 4, 16, defaults::kControlConnections);
}

}  // namespace

Result<void> RequestGate::start(Fd listening)
{
    listening_ = std::move(listening);
    limit_ = most_connections();
    epoll_ = Fd(epoll_create1(EPOLL_CLOEXEC));
    waker_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    for (int fd : {waker_.get(), listening_.get()}) {
        epoll_event event{};
        event.events = EPOLLIN;
        event.data.fd = fd;
        if (!epoll_ || !waker_ || epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
            return error(ErrorKind::exhausted, "no epoll: %s", strerror(errno));
    }
    watcher_ = std::thread([this] { watch(); });
    for (size_t i = 0; i < defaults::kControlThreads; ++i)
        workers_.emplace_back([this] { work(); });
    return {};
}

void RequestGate::stop()
{
    {
        std::lock_guard lock(mutex_);
        ending_ = true;
    }
    some_.notify_all();
    if (watcher_.joinable()) {
        wake();
        watcher_.join();
    }
    for (std::thread &worker : workers_) worker.join();
    workers_.clear();
    listening_.reset();
}

void RequestGate::wake()
{
    uint64_t one = 1;
    [[maybe_unused]] ssize_t n = write(waker_.get(), &one, sizeof one);
}

void RequestGate::watch()
{
    Time next = kNever;
    for (;;) {
        epoll_event events[kEvents];
        auto pause = next == kNever
                         ? -1
                         : static_cast<int>(std::max<int64_t>(0, (next - now()).count()) + 1);
        int count = epoll_wait(epoll_.get(), events, kEvents, pause);
        {
            std::lock_guard lock(mutex_);
            if (ending_) break;
        }
        for (int i = 0; i < count; ++i) look_at(events[i].data.fd);
        take_back();
        bound_untaken();
        next = sweep(now());
    }
    waiting_.clear();
}

// An event may be of a connection that went meanwhile, and its number another's: what is done then
// finds nothing to do.
void RequestGate::look_at(int fd)
{
    uint64_t wakes;
    if (fd == waker_.get())
        (void)!read(fd, &wakes, sizeof wakes);
    else if (fd == listening_.get())
        accept_some();
    else if (auto at = waiting_.find(fd); at != waiting_.end())
        waits_for_reader(at->second) ? write_to(at) : read_from(at);
}

void RequestGate::accept_some()
{
    constexpr int kAtOnce = 64;
    for (int i = 0; i < kAtOnce; ++i) {
        Fd socket(accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (!socket && (errno == EINTR || errno == ECONNABORTED)) continue;
        if (!socket &&
            (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
            const int failure = errno;
            if (auto one = newcomers_.most_crowded()) {
                drop_one(*one, strerror(failure));
                return;
            }
            if (Time time = now(); time - told_ >= kBetweenLines) {
                log_error("control: accept: %s", strerror(failure));
                told_ = time;
            }
            std::this_thread::sleep_for(Milliseconds(10));  // no busy loop
            return;
        }
        if (!socket) return;
        Connection connection;
        connection.origin = origin_of(socket.get());
        // What the peer does not read stays here, where it is counted.
        const int most_unsent = 256 * 1024;
        setsockopt(socket.get(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &most_unsent, sizeof most_unsent);
        connection.stream = PeerStream(std::move(socket), access_.identity);
        connection.deadline = now() + defaults::kRequestTime;
        {
            std::lock_guard lock(mutex_);
            ++open_;
        }
        let_in(std::move(connection));
    }
}

bool RequestGate::full()
{
    std::lock_guard lock(mutex_);
    return open_ > limit_;
}

// Watches a connection, new or answered, if need be in place of another.
void RequestGate::let_in(Connection connection)
{
    const int fd = connection.stream.fd();
    while (drop_in_the_way(connection.origin, full()))
        ;
    epoll_event event{};
    event.events = waits_for_reader(connection) ? EPOLLOUT : EPOLLIN;
    event.data.fd = fd;
    // Where all are being answered, and nobody is in the way, it is too many.
    if (full() || epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
        kept_ -= connection.kept;
        std::lock_guard lock(mutex_);
        --open_;
        return;
    }
    connection.number = newcomers_.add(connection.origin);
    descriptors_[connection.number] = fd;
    auto at = waiting_.insert_or_assign(fd, std::move(connection)).first;
    if (!waits_for_reader(at->second)) read_from(at);
}

// What comes from a worker is watched, or answered again where the next request is there.
void RequestGate::take_back()
{
    std::vector<Connection> taken;
    {
        std::lock_guard lock(mutex_);
        taken.swap(returned_);
    }
    for (Connection &connection : taken) {
        if (!waits_for_reader(connection) && connection.last) connection.stream.end_sending();
        let_in(std::move(connection));
    }
}

// Closes one that is in the way of another from `origin`. False: none is.
bool RequestGate::drop_in_the_way(const std::string &origin, bool full)
{
    auto number = newcomers_.in_the_way_of(origin, full);
    if (number) drop_one(*number, "others wait");
    return number.has_value();
}

// One that makes room; if it has said something meanwhile, it is served.
void RequestGate::drop_one(uint64_t number, const char *why)
{
    auto at = waiting_.find(descriptors_.at(number));
    const std::string origin = at->second.origin;
    if (!waits_for_reader(at->second)) {
        read_from(at);
        if (!descriptors_.count(number)) return;
    }
    drop(at);
    ++untold_;
    if (Time time = now(); time - told_ >= kBetweenLines) {
        log_warning("control: connections closed before they sent a request: %zu, the last from "
                    "%s: %s ([rgpud] max_silent_of_address)",
                    untold_, origin.c_str(), why);
        told_ = time;
        untold_ = 0;
    }
}

// Takes a connection out of what is watched, and closes it.
void RequestGate::drop(Waiting::iterator at)
{
    newcomers_.remove(at->second.number);
    descriptors_.erase(at->second.number);
    kept_ -= at->second.kept;
    // What nobody takes is not to stay in the kernel either.
    const linger at_once{1, 0};
    if (waits_for_reader(at->second))
        setsockopt(at->first, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    waiting_.erase(at);
    std::lock_guard lock(mutex_);
    --open_;
}

// Gives a connection whose request is whole to a worker.
void RequestGate::hand_over(Waiting::iterator at)
{
    Connection connection = std::move(at->second);
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, connection.stream.fd(), nullptr);
    newcomers_.remove(connection.number);
    descriptors_.erase(connection.number);
    waiting_.erase(at);
    std::lock_guard lock(mutex_);
    ready_.push_back(std::move(connection));
    some_.notify_one();
}

// Whether the request in front is there, or is refused already. Looks at no byte of a head twice.
bool RequestGate::is_whole(Connection &connection) const
{
    std::string &received = connection.received;
    if (connection.needs == 0) {
        // Empty lines in front of a request mean nothing (RFC 9112, 2.2).
        while (received.starts_with("\r\n")) received.erase(0, 2), connection.searched = 0;
        const size_t from = connection.searched < 3 ? 0 : connection.searched - 3;
        const size_t end = received.find("\r\n\r\n", from);
        const std::string_view head(received.data(),
                                    end == received.npos ? received.size() : end + 4);
        if (stray_line_feed(head, connection.searched) != head.npos)
            connection.head = {0, 400, "a line of the header does not end in CR LF"};
        else if (end != received.npos || head.size() > defaults::kMaxRequestHead)
            connection.head = read_head(head);
        connection.searched = received.size();
        if (connection.head.status) return true;
        if (end == received.npos) return false;
        if (access_.tls_only && !connection.stream.is_encrypted())
            return connection.head = {0, 426, kNeedsTls}, true;
        connection.needs = head.size() + connection.head.body;
    }
    return received.size() >= connection.needs;
}

void RequestGate::read_from(Waiting::iterator at)
{
    Connection &connection = at->second;
    if (!connection.last && is_whole(connection)) return hand_over(at);
    char bytes[kPiece];
    static_assert(sizeof bytes >= PeerStream::kRecord);
    const ssize_t n = connection.stream.receive(bytes, sizeof bytes);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) return drop(at);
    if (connection.last) return;  // nobody listens any more
    connection.received.append(bytes, static_cast<size_t>(n));
    if (is_whole(connection)) hand_over(at);
}

std::string_view RequestGate::blank()
{
    static const std::string bytes(4 * kPiece, ' ');
    return bytes;
}

ssize_t RequestGate::send_some(Connection &connection)
{
    std::string_view next = blank().substr(0, connection.blank);
    if (connection.kept != 0)
        next = std::string_view(connection.untaken.front()).substr(connection.taken);
    return connection.stream.send(next.data(), next.size());
}

void RequestGate::write_to(Waiting::iterator at)
{
    Connection &connection = at->second;
    ssize_t n = send_some(connection);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) return drop(at);
    if (connection.kept == 0) {
        connection.blank -= static_cast<size_t>(n);
    } else if ((connection.taken += static_cast<size_t>(n)) == connection.untaken.front().size()) {
        connection.kept -= connection.taken;
        kept_ -= connection.taken;
        connection.taken = 0;
        connection.untaken.pop_front();
    }
    if (waits_for_reader(connection)) return;
    if (connection.last) connection.stream.end_sending();
    connection.deadline = now() + (connection.last ? kLinger : defaults::kRequestTime);
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = at->first;
    epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, at->first, &event);
    read_from(at);
}

// Whose answer is the largest of those that nobody takes makes room for the others'.
void RequestGate::bound_untaken()
{
    while (kept_ > defaults::kMaxUntaken) {
        auto largest = std::max_element(
            waiting_.begin(), waiting_.end(),
            [](const auto &a, const auto &b) { return a.second.kept < b.second.kept; });
        if (largest == waiting_.end() || largest->second.kept == 0)
            return;  // all of it is still being made
        log_warning("control: %s does not read its answer, and others wait: closed",
                    largest->second.origin.c_str());
        drop(largest);
    }
}

// Closes what has taken too long; returns when the next will have.
Time RequestGate::sweep(Time now)
{
    Time next = kNever;
    for (auto it = waiting_.begin(); it != waiting_.end();) {
        auto at = it++;
        if (at->second.deadline <= now)
            drop(at);
        else
            next = std::min(next, at->second.deadline);
    }
    return next;
}

// --- workers

void RequestGate::work()
{
    for (;;) {
        std::unique_lock lock(mutex_);
        some_.wait(lock, [this] { return !ready_.empty() || ending_; });
        if (ready_.empty()) return;
        Connection connection = std::move(ready_.front());
        ready_.pop_front();
        lock.unlock();
        answer(connection);
        lock.lock();
        if (connection.lost || ending_) {
            kept_ -= connection.kept;
            --open_;
        } else {
            returned_.push_back(std::move(connection));
            wake();
        }
    }
}

void RequestGate::answer(Connection &connection)
{
    const bool refused = connection.head.status != 0;
    connection.last = refused || ++connection.answered >= kRequestsOfConnection;
    auto give_it = [&](const char *data, size_t size) { return give(connection, data, size); };
    std::string_view request(connection.received.data(), refused ? 0 : connection.needs);
    if (!answer_({connection.stream.fd(), request, connection.head, connection.last, give_it}))
        connection.last = true;
    // Exactly what was announced, whatever of it was looked at.
    connection.received.erase(0, request.size());
    connection.searched = connection.needs = 0;
    connection.head = {};
    connection.deadline = now() + (waits_for_reader(connection) ? defaults::kAnswerTime
                                   : connection.last            ? kLinger
                                                                : defaults::kRequestTime);
}

bool RequestGate::give(Connection &connection, const char *data, size_t size)
{
    if (connection.lost) return false;
    const bool is_blank = data >= blank().data() && data + size <= blank().data() + blank().size();
    if (!waits_for_reader(connection)) {
        const ssize_t n = connection.stream.send(data, size);
        connection.lost = n < 0 && errno != EAGAIN && errno != EINTR;
        if (n > 0) data += n, size -= static_cast<size_t>(n);
    }
    if (connection.lost || size == 0) return !connection.lost;
    if (is_blank) {
        connection.blank += size;
        return true;
    }
    // Twice what may wait: as much again may be in the making.
    if (connection.blank != 0 || kept_ + size > 2 * defaults::kMaxUntaken) {
        connection.lost = true;
        return false;
    }
    // In pieces, whose memory others can use when they are taken.
    kept_ += size;
    connection.kept += size;
    for (size_t piece; size != 0; data += piece, size -= piece) {
        piece = std::min(size, 4 * kPiece);
        connection.untaken.emplace_back(data, piece);
    }
    return true;
}

}  // namespace rgpu::serverd
