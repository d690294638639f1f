// SPDX-License-Identifier: Apache-2.0
// One thread receives and one sends: what is theirs needs no lock.
#include "net/transport/laned_transport.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "net/transport/queues.h"

namespace rgpu::net {

namespace {

using wire::Record;

constexpr size_t kIn = 256 << 10;
constexpr size_t kPiece = 128 << 10;  // goes to one lane: so small that each has some of a chunk
constexpr size_t kBlock = 1 << 20;    // pieces that are under way together
constexpr int kMostParts = 8;

}  // namespace

void LanedTransport::add(std::vector<OwnSocket> lanes)
{
    for (OwnSocket &lane : lanes) {
        bound_queues(lane.get());
        lanes_.push_back({std::move(lane)});
    }
    laned_.store(true, std::memory_order_release);
}

void LanedTransport::begin_sending(bool always) { sending_ = true, always_ = always; }

void LanedTransport::begin_receiving(const void *come, size_t bytes)
{
    in_ = std::make_unique_for_overwrite<uint8_t[]>(std::max(kIn, bytes));
    if (bytes) memcpy(in_.get(), come, bytes);
    in_end_ = bytes;
    receiving_ = true;
    note_waiting();
}

// --- receiving

// Takes the head of the next record, if it is there.
bool LanedTransport::record_is_there()
{
    if (in_end_ - in_at_ < sizeof record_) return false;
    memcpy(&record_, &in_[in_at_], sizeof record_);
    in_at_ += sizeof record_;
    broken_ = !record_.bytes || record_.lane > lanes_.size();
    return true;
}

// 1: there is one, 0: the peer has closed, -1: as receive().
ssize_t LanedTransport::next_record(size_t bytes, int timeout)
{
    while (!record_is_there())
        if (const ssize_t n = fill(bytes, timeout); n <= 0) return n;
    return 1;
}

// Who wants few bytes expects a large block behind them, which is better received where it belongs.
ssize_t LanedTransport::fill(size_t wanted, int timeout)
{
    const size_t have = in_end_ - in_at_;
    memmove(in_.get(), in_.get() + in_at_, have);
    in_at_ = 0, in_end_ = have;
    const ssize_t n = SocketTransport::receive(
        in_.get() + have, std::min(kIn, std::max(wanted, kBehindLarge)) - have, timeout);
    if (n > 0) in_end_ += static_cast<size_t>(n);
    return n;
}

ssize_t LanedTransport::receive_here(void *to, size_t bytes, int timeout)
{
    if (in_at_ == in_end_) {
        if (bytes >= worth_reading()) return SocketTransport::receive(to, bytes, timeout);
        if (const ssize_t n = fill(bytes, timeout); n <= 0) return n;
    }
    bytes = std::min(bytes, in_end_ - in_at_);
    memcpy(to, &in_[in_at_], bytes);
    in_at_ += bytes;
    return static_cast<ssize_t>(bytes);
}

ssize_t LanedTransport::receive_on(Lane &lane, void *to, size_t bytes, int timeout)
{
    if (!lane.socket.ours()) return errno = EBADF, -1;
    pollfd look{lane.socket.get(), POLLIN, 0};
    if (timeout > 0 && poll(&look, 1, timeout) <= 0) return errno = EAGAIN, -1;
    ssize_t n;
    while ((n = recv(lane.socket.get(), to, bytes, timeout < 0 ? 0 : MSG_DONTWAIT)) < 0 &&
           errno == EINTR) {}
    return n;
}

// What wait() looks at, in other threads, too. A head that is there is taken, as the bytes behind
// it may come elsewhere.
void LanedTransport::note_waiting()
{
    if (!record_.bytes && !record_is_there())
        waiting_on_ = socket_.get();
    else if (broken_ || (!record_.lane && in_at_ != in_end_))
        waiting_on_ = kHere;
    else
        waiting_on_ = record_.lane ? lanes_[record_.lane - 1].socket.get() : socket_.get();
}

ssize_t LanedTransport::receive(void *to, size_t bytes, int timeout)
{
    if (!receiving_) return SocketTransport::receive(to, bytes, timeout);
    if (!record_.bytes && !broken_)
        if (const ssize_t n = next_record(bytes, timeout); n <= 0) return n;
    if (broken_) return errno = EPROTO, -1;
    bytes = std::min<size_t>(bytes, record_.bytes);
    const ssize_t n = record_.lane ? receive_on(lanes_[record_.lane - 1], to, bytes, timeout)
                                   : receive_here(to, bytes, timeout);
    if (n > 0) record_.bytes -= static_cast<uint32_t>(n);
    note_waiting();
    return n;
}

// --- sending

ssize_t LanedTransport::send(const iovec *parts, int count, int timeout)
{
    if (!sending_) return SocketTransport::send(parts, count, timeout);
    while (count && !parts->iov_len) parts++, count--;
    if (!count) return 0;
    const bool large = !here_left_ && parts->iov_len >= kLeast;
    if (large && !block_) block_since_ = std::chrono::steady_clock::now();
    if (block_ || (large && (always_ || meter_.lanes())))
        return send_block(static_cast<const uint8_t *>(parts->iov_base), parts->iov_len, timeout);
    if (large) here_large_ = std::min(parts->iov_len, kBlock);
    int small = 1;
    if (here_large_) return send_here(parts, 1, timeout);
    while (small < count && small < kMostParts && parts[small].iov_len < kLeast) small++;
    return send_here(parts, small, timeout);
}

void LanedTransport::announce(size_t bytes, size_t lane)
{
    const Record r{static_cast<uint32_t>(bytes), static_cast<uint32_t>(lane)};
    const auto p = reinterpret_cast<const uint8_t *>(&r);
    heads_.insert(heads_.end(), p, p + sizeof r);
}

void LanedTransport::heads_went(size_t bytes)
{
    heads_at_ += bytes;
    if (heads_at_ == heads_.size()) heads_.clear(), heads_at_ = 0;
}

// A record on the first connection, or what is left of it.
ssize_t LanedTransport::send_here(const iovec *parts, int count, int timeout)
{
    if (!here_left_) {
        for (int i = 0; i < count; i++) here_left_ += parts[i].iov_len;
        if (here_large_) here_left_ = here_large_;
        announce(here_left_, 0);
    }
    for (;;) {
        iovec all[kMostParts + 1] = {{heads_.data() + heads_at_, heads_.size() - heads_at_}};
        size_t left = here_left_;
        int n = 1;
        for (int i = 0; i < count && left; i++, n++) {
            all[n] = {parts[i].iov_base, std::min(parts[i].iov_len, left)};
            left -= all[n].iov_len;
        }
        ssize_t went = SocketTransport::send(all, n, timeout);
        if (went <= 0) return went;
        const size_t head = std::min(all[0].iov_len, static_cast<size_t>(went));
        heads_went(head);
        went -= static_cast<ssize_t>(head);
        here_left_ -= static_cast<size_t>(went);
        if (!here_left_ && here_large_) end_block(std::exchange(here_large_, 0));
        if (went) return went;
    }
}

// Each lane that has nothing gets the next piece. Whether one got some.
bool LanedTransport::give_pieces(size_t bytes)
{
    const size_t before = given_;
    for (size_t i = 0; i < lanes_.size() && given_ < bytes; i++, turn_++) {
        Lane &lane = lanes_[turn_ % lanes_.size()];
        if (lane.left) continue;
        lane.at = given_;
        lane.left = std::min(kPiece, bytes - given_);
        given_ += lane.left;
        announce(lane.left, turn_ % lanes_.size() + 1);
    }
    return given_ != before;
}

// 1: some went, 0: none, -1: as send().
int LanedTransport::push_heads()
{
    if (heads_.empty()) return 0;
    const iovec heads{heads_.data() + heads_at_, heads_.size() - heads_at_};
    const ssize_t n = SocketTransport::send(&heads, 1, 0);
    if (n < 0) return errno == EAGAIN ? 0 : -1;
    heads_went(static_cast<size_t>(n));
    return 1;
}

int LanedTransport::push(Lane &lane, const uint8_t *block)
{
    if (!lane.socket.ours()) return errno = EBADF, -1;
    ssize_t n;
    while ((n = ::send(lane.socket.get(), block + lane.at, lane.left,
                       MSG_NOSIGNAL | MSG_DONTWAIT)) < 0 &&
           errno == EINTR) {}
    if (n < 0) return errno == EAGAIN ? 0 : -1;
    lane.at += static_cast<size_t>(n), lane.left -= static_cast<size_t>(n);
    return 1;
}

// All of it before it returns, but for -1: then the same block comes next.
ssize_t LanedTransport::send_block(const uint8_t *block, size_t bytes, int timeout)
{
    if (!block_) block_ = std::min(bytes, kBlock);
    for (;;) {
        bool moved = give_pieces(block_), left = given_ < block_;
        const int heads = push_heads();
        if (heads < 0) return -1;
        moved |= heads > 0;
        for (Lane &lane : lanes_) {
            if (!lane.left) continue;
            const int n = push(lane, block);
            if (n < 0) return -1;
            moved |= n > 0, left |= lane.left != 0;
        }
        if (!left && heads_.empty()) {
            given_ = 0;
            end_block(block_);
            return static_cast<ssize_t>(std::exchange(block_, 0));
        }
        if (moved) continue;
        if (!timeout || (!wait(kRoom, timeout) && timeout > 0)) return errno = EAGAIN, -1;
    }
}

void LanedTransport::end_block(size_t bytes)
{
    if (!always_) meter_.sent(bytes, std::chrono::steady_clock::now() - block_since_);
}

// --- both

// Room is the sending thread's to ask for.
unsigned LanedTransport::wait(unsigned events, int timeout)
{
    const int in = waiting_on_;
    const bool on_lanes = events & kRoom && block_;
    if (in == kNotYet && !on_lanes) return SocketTransport::wait(events, timeout);
    if (events & kData && in == kHere) return kData;
    pollfd looks[wire::kMostLanes + 2];
    nfds_t n = 0;
    if (events & kData) looks[n++] = {in == kNotYet ? socket_.get() : in, POLLIN, 0};
    const nfds_t first_room = n;
    if (events & kRoom && (!on_lanes || !heads_.empty())) looks[n++] = {socket_.get(), POLLOUT, 0};
    if (on_lanes)
        for (Lane &lane : lanes_)
            if (lane.left) looks[n++] = {lane.socket.get(), POLLOUT, 0};
    if (poll(looks, n, timeout) <= 0) return 0;
    unsigned there = 0;
    for (nfds_t i = 0; i < n; i++)
        if (looks[i].revents) there |= i < first_room ? kData : kRoom;
    return there;
}

void LanedTransport::shutdown()
{
    SocketTransport::shutdown();
    if (!laned_.load(std::memory_order_acquire)) return;
    for (Lane &lane : lanes_)
        if (lane.socket.ours()) ::shutdown(lane.socket.get(), SHUT_RDWR);
}

void LanedTransport::leave_to_parent()
{
    SocketTransport::leave_to_parent();
    if (!laned_.load(std::memory_order_acquire)) return;
    for (Lane &lane : lanes_) lane.socket.let_go();
}

}  // namespace rgpu::net
