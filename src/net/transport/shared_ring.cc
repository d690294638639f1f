// SPDX-License-Identifier: Apache-2.0
#include "net/transport/shared_ring.h"

#include <algorithm>
#include <cerrno>

namespace rgpu::net {

namespace {

constexpr size_t kMask = SharedRing::kRingBytes - 1;
static_assert((SharedRing::kRingBytes & kMask) == 0);

struct Segment {
    uint32_t bytes;
    uint32_t place;  // 0: the bytes follow
};
static_assert(sizeof(Segment) == RingSender::kHeader);

constexpr size_t padded(size_t bytes) { return (bytes + 7) & ~size_t{7}; }

}  // namespace

// --- sending

ssize_t RingSender::room() const
{
    const uint64_t used = head_ - ring_.tail.load(std::memory_order_acquire);
    if (used <= SharedRing::kRingBytes) return static_cast<ssize_t>(SharedRing::kRingBytes - used);
    errno = EPROTO;
    return -1;
}

// What a place holds, too, is told in the ring: with less room there than is enough for whatever
// comes, a place that has come back is none.
bool RingSender::has_room()
{
    const uint64_t used = head_ - ring_.tail.load(std::memory_order_seq_cst);
    return used <= SharedRing::kRingBytes / 4 * 3 || used > SharedRing::kRingBytes ||
           (used <= SharedRing::kRingBytes - kLeast &&
            ring_.returned.load(std::memory_order_seq_cst) & sent_);
}

void RingSender::put(uint32_t bytes, int place, const void *data)
{
    const Segment segment{bytes, static_cast<uint32_t>(place + 1)};
    memcpy(&ring_.ring[head_ & kMask], &segment, sizeof segment);
    head_ += sizeof segment;
    if (place >= 0) {
        sent_.fetch_or(1u << place);
        return;
    }
    const size_t at = head_ & kMask, first = std::min<size_t>(bytes, SharedRing::kRingBytes - at);
    memcpy(&ring_.ring[at], data, first);
    memcpy(ring_.ring, static_cast<const uint8_t *>(data) + first, bytes - first);
    head_ += padded(bytes);
}

// Whether the receiver must be woken. Sequentially consistent, as is the receiver's side
// (SharedTransport::sleep): of the two one sees the other.
bool RingSender::publish()
{
    if (ring_.head.load(std::memory_order_relaxed) == head_) return false;
    ring_.head.store(head_, std::memory_order_seq_cst);
    return ring_.receiver_sleeps.load(std::memory_order_seq_cst) &&
           ring_.receiver_sleeps.exchange(0);
}

// Those that are still the peer's. What it returns without having it means nothing.
uint32_t RingSender::collect_returned()
{
    if (ring_.returned.load(std::memory_order_relaxed)) {
        const uint32_t back = ring_.returned.exchange(0) & sent_;
        sent_.fetch_and(~back);
        free_.fetch_or(back);
    }
    return sent_;
}

void *RingSender::reserve()
{
    uint32_t free = free_;
    do {
        // The lowest: the one that was used last is still in the cache.
        if (!free && (collect_returned(), !(free = free_))) return nullptr;
    } while (!free_.compare_exchange_weak(free, free & (free - 1)));
    return ring_.places[__builtin_ctz(free)];
}

void RingSender::unreserve(void *place) { free_.fetch_or(1u << place_of(place)); }

// Waits a moment for one: a copy that goes through the ring instead costs both sides more.
int RingSender::take_tenant_end()
{
    void *place = reserve();
    if (!place) spin_.until([&] { return (place = reserve()) != nullptr; });
    return place ? place_of(place) : -1;
}

// --- receiving

// 1: the next segment has begun; 0: there is none; -1: there is something that no peer of ours
// writes.
int RingReceiver::next()
{
    const uint64_t tail = tail_.load(std::memory_order_relaxed);
    const uint64_t there = ring_.head.load(std::memory_order_acquire) - tail;
    if (!there) return 0;
    errno = EPROTO;
    if (there > SharedRing::kRingBytes || there % 8) return -1;
    // Read once: it may change.
    const uint64_t header = __atomic_load_n(
        reinterpret_cast<const uint64_t *>(&ring_.ring[tail & kMask]), __ATOMIC_RELAXED);
    Segment segment;
    memcpy(&segment, &header, sizeof segment);
    if (!segment.bytes || segment.place > SharedRing::kPlaces) return -1;
    if (segment.bytes > (segment.place ? SharedRing::kPlaceBytes : there - sizeof segment))
        return -1;
    place_ = static_cast<int>(segment.place) - 1;
    if (place_ >= 0) users_[place_]++, offset_ = 0;
    padding_ = static_cast<uint32_t>(padded(segment.bytes) - segment.bytes);
    left_.store(segment.bytes, std::memory_order_relaxed);
    tail_.store(tail + sizeof segment, std::memory_order_relaxed);
    return 1;
}

// From the ring, at the tail.
void RingReceiver::copy_out(void *to, size_t bytes)
{
    const uint64_t tail = tail_.load(std::memory_order_relaxed);
    const size_t at = tail & kMask, first = std::min(bytes, SharedRing::kRingBytes - at);
    memcpy(to, &ring_.ring[at], first);
    memcpy(static_cast<uint8_t *>(to) + first, ring_.ring, bytes - first);
    const uint32_t left = left_.load(std::memory_order_relaxed) - static_cast<uint32_t>(bytes);
    left_.store(left, std::memory_order_relaxed);
    tail_.store(tail + bytes + (left ? 0 : padding_), std::memory_order_relaxed);
}

ssize_t RingReceiver::receive(void *to, size_t bytes)
{
    size_t got = 0;
    while (got < bytes) {
        if (!left_.load(std::memory_order_relaxed)) {
            const int r = next();
            if (r < 0) return -1;
            if (!r) break;
        }
        const size_t n = std::min<size_t>(left_.load(std::memory_order_relaxed), bytes - got);
        if (place_ < 0) {
            copy_out(static_cast<uint8_t *>(to) + got, n);
            got += n;
            continue;
        }
        if (got) break;  // what lies in a place may be lent
        const Lent lent = lend(n);
        memcpy(to, lent.data, lent.bytes);
        give_back(lent);
        got = lent.bytes;
        break;
    }
    tell_tail();
    return static_cast<ssize_t>(got);
}

Lent RingReceiver::lend(size_t most)
{
    if (!left_.load(std::memory_order_relaxed) && next() <= 0) return {};
    if (place_ < 0) return {};
    const uint32_t left = left_.load(std::memory_order_relaxed);
    uint8_t *place = ring_.places[place_];
    const Lent lent{place + offset_, std::min<size_t>(left, most), place, SharedRing::kPlaceBytes};
    users_[place_]++;
    offset_ += static_cast<uint32_t>(lent.bytes);
    left_.store(left - static_cast<uint32_t>(lent.bytes), std::memory_order_relaxed);
    if (lent.bytes == left) leave(static_cast<unsigned>(place_));
    tell_tail();
    return lent;
}

// Only a new one: whoever looks for input must not take the line from the sender with each look.
void RingReceiver::tell_tail()
{
    const uint64_t tail = tail_.load(std::memory_order_relaxed);
    if (tail == told_tail_) return;
    told_tail_ = tail;
    ring_.tail.store(tail, std::memory_order_seq_cst);
}

void RingReceiver::give_back(const Lent &lent)
{
    leave(static_cast<unsigned>((static_cast<uint8_t *>(lent.place) - ring_.places[0]) /
                                static_cast<ptrdiff_t>(SharedRing::kPlaceBytes)));
}

void RingReceiver::leave(unsigned place)
{
    if (!--users_[place]) ring_.returned.fetch_or(1u << place);
}

bool RingReceiver::made_room()
{
    if (!ring_.sender_sleeps.load(std::memory_order_seq_cst)) return false;
    const uint64_t used = ring_.head.load(std::memory_order_relaxed) -
                          tail_.load(std::memory_order_relaxed);
    if (used > SharedRing::kRingBytes / 4 * 3 && !ring_.returned.load(std::memory_order_relaxed))
        return false;
    return ring_.sender_sleeps.exchange(0);
}

}  // namespace rgpu::net
