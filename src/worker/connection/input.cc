// SPDX-License-Identifier: Apache-2.0
// The stream, into one buffer.
#include "worker/connection/input.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "net/packing/link_meter.h"
#include "net/packing/unpacker.h"
#include "share/pages.h"
#include "worker/limits/metering.h"

namespace rgpu::worker {

Input::Input(net::Transport &from) : from_(&from) {}

void Input::on_pause(std::function<bool()> at_once, std::function<void()> pause)
{
    at_once_ = std::move(at_once);
    pause_ = std::move(pause);
}

ssize_t Input::take(void *to, size_t bytes, int timeout)
{
    if (const size_t have = ahead_.size() - ahead_begin_) {
        const size_t n = std::min(have, bytes);
        memcpy(to, ahead_.data() + ahead_begin_, n);
        ahead_begin_ += n;
        if (n == have) ahead_.clear(), ahead_.shrink_to_fit(), ahead_begin_ = 0;
        return static_cast<ssize_t>(n);
    }
    const ssize_t n = from_->receive(to, bytes, timeout);
    if (n > 0) Metering::here().received(static_cast<size_t>(n));
    return n;
}

ssize_t Input::receive(void *to, size_t bytes)
{
    ssize_t n = take(to, bytes, at_once_ && at_once_() ? 0 : kMoment);
    if (n >= 0 || errno != EAGAIN) return n;
    if (pause_) pause_();
    return take(to, bytes, -1);
}

bool Input::fill()
{
    begin_ = end_ = 0;
    ssize_t n = -1;
    const size_t room = std::exchange(behind_large_, false) ? net::kBehindLarge : kBufferBytes;
    const auto look = [&] {
        n = take(buffer_.get(), room, 0);
        return n >= 0 || errno != EAGAIN;
    };
    // Who is told at once is told before the look, too.
    bool there = false;
    if (at_once_ && at_once_() && !(there = look())) pause_();
    if (!there && !spin_.until(look)) n = receive(buffer_.get(), room);
    if (n > 0) end_ = static_cast<size_t>(n);
    broken_ = n < 0 && errno == EPROTO;
    return n > 0;
}

Error Input::ended() const
{
    if (broken_)
        return error(ErrorKind::invalid, "the client has broken the %s",
                     from_->name() == std::string_view("shm") ? "shared memory"
                                                              : "records of its lanes");
    return error(ErrorKind::disconnected, "connection closed inside a frame");
}

bool Input::packed() const { return unpacker_ && unpacker_->inside(); }

std::span<const uint8_t> Input::rest()
{
    const size_t begin = std::exchange(begin_, end_);
    return {buffer_.get() + begin, end_ - begin};
}

bool Input::empty() const { return begin_ == end_ && ahead_.empty() && !packed(); }

bool Input::comes_within(int timeout) const
{
    return !empty() || from_->wait(net::Transport::kData, timeout);
}

void Input::use(net::Unpacker &unpacker, net::LinkMeter *meter, std::function<void(uint64_t)> tell)
{
    unpacker_ = &unpacker;
    meter_ = meter;
    tell_ = std::move(tell);
}

Result<void> Input::read(void *to, size_t bytes)
{
    return packed() ? read_packed(to, bytes) : read_raw(to, bytes);
}

Result<void> Input::read_packed(void *to, size_t bytes)
{
    Error raw{ErrorKind::disconnected, ""};
    auto r = unpacker_->read(to, bytes, [&](void *p, size_t n) {
        auto done = read_raw(p, n);
        if (done) return true;
        raw = std::move(done).error();
        return false;
    });
    return !r && r.error().text.empty() ? Result<void>(std::move(raw)) : r;
}

Result<void> Input::read_raw(void *to, size_t bytes)
{
    auto p = static_cast<uint8_t *>(to);
    const bool large = bytes >= std::min(from_->worth_reading(), kBufferBytes);
    behind_large_ |= large && bytes > net::kBehindLarge;
    while (bytes) {
        if (size_t have = end_ - begin_) {
            size_t take = std::min(have, bytes);
            memcpy(p, buffer_.get() + begin_, take);
            begin_ += take, p += take, bytes -= take;
            continue;
        }
        if (!large) {
            if (!fill()) return ended();
            continue;
        }
        const int64_t begin = share::clock_now();
        const ssize_t n = receive(p, bytes);
        Metering::here().moved(share::clock_now() - begin);
        broken_ = n < 0 && errno == EPROTO;
        if (n <= 0) return ended();
        p += n, bytes -= static_cast<size_t>(n);
        // A long rest: what came was all that was there.
        if (meter_ && meter_->got(static_cast<size_t>(n), bytes >= from_->worth_reading()))
            tell_(meter_->rate());
    }
    return {};
}

net::Lent Input::lend(size_t most)
{
    if (begin_ != end_ || !ahead_.empty()) return {};
    // A transport that lends nothing is not waited for.
    if (!from_->lends()) return {};
    using enum net::Transport::Event;
    const auto there = [&] { return from_->wait(kData, 0) != 0; };
    while (!there() && !spin_.until(there) && !from_->wait(kData, kMoment)) {
        if (pause_) pause_();
        from_->wait(kData, -1);
    }
    const net::Lent lent = from_->lend(most);
    Metering::here().received(lent.bytes);
    return lent;
}

void Input::set_away(bool away)
{
    std::lock_guard lock(*ahead_mutex_);
    away_ = away;
    away_since_ = std::chrono::steady_clock::now();
    looked_at_ = ahead_begin_;
}

// What is in the buffer comes first, then what was fetched before, then what comes now.
void Input::fetch_ahead()
{
    if (begin_ != end_) {
        ahead_.erase(ahead_.begin(), ahead_.begin() + static_cast<ptrdiff_t>(ahead_begin_));
        ahead_.insert(ahead_.begin(), buffer_.get() + begin_, buffer_.get() + end_);
        begin_ = end_;
        ahead_begin_ = looked_at_ = 0;
    }
    constexpr size_t kStep = 64 << 10;
    while (ahead_.size() - ahead_begin_ < kMostAhead) {
        const size_t had = ahead_.size();
        ahead_.resize(had + kStep);
        const ssize_t n = from_->receive(ahead_.data() + had, kStep, 0);
        ahead_.resize(had + static_cast<size_t>(std::max<ssize_t>(n, 0)));
        if (n <= 0) return;  // an end or a fault the reader finds itself
        Metering::here().received(static_cast<size_t>(n));
    }
}

bool Input::look_ahead(const Take &take)
{
    std::lock_guard lock(*ahead_mutex_);
    if (!away_ || std::chrono::steady_clock::now() < away_since_ + kAwayForLong) return false;
    fetch_ahead();
    wire::FrameHeader h;
    while (ahead_.size() - looked_at_ >= sizeof h) {
        memcpy(&h, ahead_.data() + looked_at_, sizeof h);
        const size_t bytes = sizeof h + h.bytes;
        if (ahead_.size() - looked_at_ < bytes) break;
        const auto frame = ahead_.begin() + static_cast<ptrdiff_t>(looked_at_);
        if (take(h, ahead_.data() + looked_at_ + sizeof h))
            ahead_.erase(frame, frame + static_cast<ptrdiff_t>(bytes));
        else
            looked_at_ += bytes;
    }
    if (ahead_.size() == ahead_begin_) ahead_.clear(), ahead_begin_ = looked_at_ = 0;
    return ahead_.size() - ahead_begin_ < kMostAhead;
}

Result<wire::FrameHeader> Input::header()
{
    if (packed())
        if (auto r = unpacker_->close(); !r) return std::move(r).error();
    if (begin_ == end_ && !fill()) return broken_ ? ended() : Error{ErrorKind::disconnected, ""};
    wire::FrameHeader h;
    if (auto r = read(&h, sizeof h); !r) return std::move(r).error();
    if (h.type != wire::kPartCall || !unpacker_) return h;
    if (auto r = unpacker_->open(h); !r) return std::move(r).error();
    if (auto r = read(&h, sizeof h); !r) return std::move(r).error();
    return h;
}

Result<const uint8_t *> Input::body(size_t bytes)
{
    if (end_ - begin_ >= bytes && !packed()) {  // no copy when it is all here
        const uint8_t *p = buffer_.get() + begin_;
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
