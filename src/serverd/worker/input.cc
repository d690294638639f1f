// recv(2) into one buffer.
#include "serverd/worker/input.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace rgpu::worker {

namespace {
// Longer than a program that keeps the GPU busy rests between two bursts of calls: each pause costs it an event. A newcomer to its GPU
// waits as long for its first turn.
constexpr timeval kMoment = {0, 5000};
}

// The kernel ends a wait after the moment: no call more is needed to notice a pause.
Input::Input(int fd) : fd_(fd), buffer_(256 << 10) { setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &kMoment, sizeof kMoment); }

void Input::on_pause(std::function<bool()> at_once, std::function<void()> pause)
{
    at_once_ = std::move(at_once);
    pause_ = std::move(pause);
}

ssize_t Input::receive(void *to, size_t bytes)
{
    for (;;) {
        const ssize_t n = recv(fd_, to, bytes, at_once_ && at_once_() ? MSG_DONTWAIT : 0);
        if (n >= 0 || (errno != EINTR && errno != EAGAIN)) return n;
        if (errno == EINTR) continue;
        if (pause_) pause_();
        pollfd look{fd_, POLLIN, 0};
        poll(&look, 1, -1);
    }
}

bool Input::fill()
{
    begin_ = end_ = 0;
    ssize_t n = -1;
    // Who is told at once is told before the look, too.
    if (at_once_ && at_once_() && (n = recv(fd_, buffer_.data(), buffer_.size(), MSG_DONTWAIT)) < 0) pause_();
    if (n < 0)
        spin_.until([&] {
            n = recv(fd_, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
            return n >= 0 || (errno != EAGAIN && errno != EINTR);
        });
    if (n < 0) n = receive(buffer_.data(), buffer_.size());
    if (n > 0) end_ = static_cast<size_t>(n);
    return n > 0;
}

Result<void> Input::read(void *to, size_t bytes)
{
    auto p = static_cast<uint8_t *>(to);
    while (bytes) {
        if (size_t have = end_ - begin_) {
            size_t take = std::min(have, bytes);
            memcpy(p, buffer_.data() + begin_, take);
            begin_ += take, p += take, bytes -= take;
            continue;
        }
        if (bytes < buffer_.size() / 2) {
            if (!fill()) return error(ErrorKind::disconnected, "connection closed inside a frame");
            continue;
        }
        const ssize_t n = receive(p, bytes);
        if (n <= 0) return error(ErrorKind::disconnected, "connection closed inside a frame");
        p += n, bytes -= static_cast<size_t>(n);
    }
    return {};
}

Result<wire::FrameHeader> Input::header()
{
    if (begin_ == end_ && !fill()) return Error{ErrorKind::disconnected, ""};
    wire::FrameHeader h;
    if (auto r = read(&h, sizeof h); !r) return std::move(r).error();
    return h;
}

Result<const uint8_t *> Input::body(size_t bytes)
{
    if (end_ - begin_ >= bytes) {  // no copy when it is all here
        const uint8_t *p = buffer_.data() + begin_;
        begin_ += bytes;
        return p;
    }
    if (body_.size() < bytes) body_.resize(bytes);
    if (auto r = read(body_.data(), bytes); !r) return std::move(r).error();
    return static_cast<const uint8_t *>(body_.data());
}

Result<std::vector<uint8_t>> Input::long_body(size_t bytes)
{
    constexpr size_t kStep = 4 << 20;
    std::vector<uint8_t> v;
    while (v.size() < bytes) {
        size_t at = v.size(), step = std::min(kStep, bytes - at);
        v.resize(at + step);
        if (auto r = read(v.data() + at, step); !r) return std::move(r).error();
    }
    return v;
}

}  // namespace rgpu::worker
