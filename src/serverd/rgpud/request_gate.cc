#include "serverd/rgpud/request_gate.h"

#include <strings.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "util/defaults.h"
#include "util/units.h"

namespace rgpu::serverd {
namespace {

constexpr size_t kMaxHead = 16 * 1024;
constexpr Milliseconds kRequestTime{5000};  // for all of a request; between two of a connection
constexpr int kRequestsOfConnection = 100;
constexpr int kEvents = 64;

// The value of a header field in a request's head; nothing when it is not there.
const char *field(const std::string &head, const char *name)
{
    size_t length = strlen(name);
    for (size_t at = head.find('\n'); at != head.npos && at + 1 < head.size(); at = head.find('\n', at + 1)) {
        const char *line = head.c_str() + at + 1;
        if (strncasecmp(line, name, length) == 0 && line[length] == ':')
            return line + length + 1 + strspn(line + length + 1, " \t");
    }
    return nullptr;
}

}  // namespace

size_t RequestGate::whole(const std::string &received)
{
    size_t end = received.find("\r\n\r\n");
    if (end == received.npos)
        return received.size() > kMaxHead ? received.size() : 0;
    const size_t head_bytes = end + 4;
    const std::string head = received.substr(0, head_bytes);
    if (head_bytes > kMaxHead || field(head, "Transfer-Encoding") || field(head, "Expect"))
        return received.size();
    const char *length = field(head, "Content-Length");
    if (!length)
        return head_bytes;
    Result<int64_t> number = parse_integer(std::string_view(length, strcspn(length, " \t\r\n")), 0,
                                           static_cast<int64_t>(defaults::kMaxRequestBody));
    if (!number)
        return received.size();
    const size_t all = head_bytes + static_cast<size_t>(*number);
    return received.size() >= all ? all : 0;
}

Result<void> RequestGate::start()
{
    epoll_ = Fd(epoll_create1(EPOLL_CLOEXEC));
    waker_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = waker_.get();
    if (!epoll_ || !waker_ || epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, waker_.get(), &event) != 0)
        return error(ErrorKind::exhausted, "no epoll: %s", strerror(errno));
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
    for (std::thread &worker : workers_)
        worker.join();
    workers_.clear();
}

void RequestGate::wake()
{
    uint64_t one = 1;
    [[maybe_unused]] ssize_t n = write(waker_.get(), &one, sizeof one);
}

void RequestGate::add(Fd socket)
{
    std::lock_guard lock(mutex_);
    if (open_ >= defaults::kControlConnections)
        return;
    ++open_;
    returned_.push_back({std::move(socket), {}, now() + kRequestTime, 0});
    wake();
}

// What comes from add() or from a worker is watched, or answered again where the next request is there.
void RequestGate::take_back()
{
    std::vector<Connection> taken;
    {
        std::lock_guard lock(mutex_);
        taken.swap(returned_);
    }
    for (Connection &connection : taken) {
        int fd = connection.socket.get();
        epoll_event event{};
        event.events = EPOLLIN;
        event.data.fd = fd;
        if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
            std::lock_guard lock(mutex_);
            --open_;
            continue;
        }
        waiting_[fd] = std::move(connection);
        if (!waiting_[fd].received.empty())
            read_from(fd);
    }
}

void RequestGate::read_from(int fd)
{
    auto found = waiting_.find(fd);
    if (found == waiting_.end())
        return;
    Connection &connection = found->second;
    char bytes[16384];
    ssize_t n = whole(connection.received) ? 1 : recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    bool closed = n <= 0;
    if (!closed && !whole(connection.received))
        connection.received.append(bytes, static_cast<size_t>(n));
    bool ready = whole(connection.received) || (n == 0 && !connection.received.empty());
    if (!ready && !closed)
        return;
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
    Connection taken = std::move(connection);
    waiting_.erase(found);
    std::lock_guard lock(mutex_);
    if (!ready) {
        --open_;
        return;
    }
    if (closed)
        taken.answered = kRequestsOfConnection;
    ready_.push_back(std::move(taken));
    some_.notify_one();
}

// Closes what has taken too long; returns when the next will have.
Time RequestGate::sweep(Time now)
{
    Time next = kNever;
    size_t closed = 0;
    for (auto it = waiting_.begin(); it != waiting_.end();) {
        if (it->second.deadline <= now) {
            it = waiting_.erase(it);
            ++closed;
        } else {
            next = std::min(next, it->second.deadline);
            ++it;
        }
    }
    std::lock_guard lock(mutex_);
    open_ -= closed;
    return next;
}

void RequestGate::watch()
{
    Time next = kNever;
    for (;;) {
        epoll_event events[kEvents];
        auto pause = next == kNever ? -1 : static_cast<int>(std::max<int64_t>(0, (next - now()).count()) + 1);
        int count = epoll_wait(epoll_.get(), events, kEvents, pause);
        {
            std::lock_guard lock(mutex_);
            if (ending_)
                break;
        }
        for (int i = 0; i < count; ++i) {
            uint64_t wakes;
            if (events[i].data.fd == waker_.get())
                (void)!read(waker_.get(), &wakes, sizeof wakes);
            else
                read_from(events[i].data.fd);
        }
        take_back();
        next = sweep(now());
    }
    waiting_.clear();
}

void RequestGate::work()
{
    for (;;) {
        std::unique_lock lock(mutex_);
        some_.wait(lock, [this] { return !ready_.empty() || ending_; });
        if (ready_.empty())
            return;
        Connection connection = std::move(ready_.front());
        ready_.pop_front();
        lock.unlock();
        bool last = ++connection.answered >= kRequestsOfConnection;
        bool keep = answer_(connection.socket.get(), connection.received, last) && !last;
        connection.deadline = now() + kRequestTime;
        lock.lock();
        if (keep && !ending_) {
            returned_.push_back(std::move(connection));
            wake();
        } else {
            --open_;
        }
    }
}

}  // namespace rgpu::serverd
