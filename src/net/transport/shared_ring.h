// SPDX-License-Identifier: Apache-2.0
// One direction of a stream through memory that two processes share: a ring of segments, and places
// for large ones.
//
// A segment is a u32 length, a u32 place, and with place 0 its bytes, padded to 8; with place n its
// bytes lie in the n-th place, which the receiver marks as returned when it has done with them.
// head and tail count the ring's bytes since the beginning.
//
// The other process may write anything anywhere in the memory, at any time: what is read there is
// read once, checked, and only then used; each side keeps its own position by itself.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "net/transport/transport.h"
#include "util/spin.h"

namespace rgpu::net {

// As it lies in the shared memory; all zero at the beginning.
struct SharedRing {
    static constexpr size_t kRingBytes = 256 << 10;
    // What one side fills and the other empties stays in the processors' caches: a few places are
    // in use at a time.
    static constexpr size_t kPlaceBytes = 256 << 10;
    static constexpr unsigned kPlaces = 16;

    alignas(64) std::atomic<uint64_t> head;      // the sender's
    alignas(64) std::atomic<uint64_t> tail;      // the receiver's
    alignas(64) std::atomic<uint32_t> returned;  // a bit for each place; the receiver sets, the
                                                 // sender clears
    alignas(64) std::atomic<uint32_t> receiver_sleeps;  // who sleeps sets it, who wakes clears it
    alignas(64) std::atomic<uint32_t> sender_sleeps;
    alignas(4096) uint8_t ring[kRingBytes];
    uint8_t places[kPlaces][kPlaceBytes];
};
static_assert(std::atomic<uint64_t>::is_always_lock_free &&
              std::atomic<uint32_t>::is_always_lock_free);
static_assert(sizeof(SharedRing) % 4096 == 0);

// The end that sends. One thread at a time sends; places may be reserved by any.
class RingSender {
public:
    static constexpr size_t kHeader = 8;  // of a segment

    explicit RingSender(SharedRing &ring) : ring_(ring) {}

    // How many bytes of the parts were taken; 0: no room; -1 (EPROTO): the peer has broken the
    // ring. Calls `wake` when there is something new and the receiver sleeps.
    template <class Wake> ssize_t send(const iovec *parts, int count, Wake &&wake);
    // Whether send() would take something, whatever it is; true, too, of a ring that the peer has
    // broken. False of one that is nearly full, so that who sleeps is not woken for each few bytes,
    // unless a place has come back.
    bool has_room();
    bool has_place() { return free_ || (ring_.returned.load(std::memory_order_seq_cst) & sent_); }

    void *reserve();
    void unreserve(void *place);
    unsigned places_under_way()
    {
        return static_cast<unsigned>(__builtin_popcount(collect_returned()));
    }

private:
    static constexpr size_t kByPlace = 32 << 10;   // what is worth a place
    static constexpr size_t kLeast = 2 * kHeader;  // a segment and some of its bytes

    int take_tenant_end();
    uint32_t collect_returned();
    ssize_t room() const;
    bool publish();
    int place_of(const void *p) const
    {
        return static_cast<int>((static_cast<const uint8_t *>(p) - ring_.places[0]) /
                                static_cast<ptrdiff_t>(SharedRing::kPlaceBytes));
    }
    void put(uint32_t bytes, int place, const void *data);

    SharedRing &ring_;
    uint64_t head_ = 0;  // not published yet
    std::atomic<uint32_t> free_{(1u << SharedRing::kPlaces) - 1},
        sent_{0};  // places: ours; the peer's
    Spin spin_;
};

// The end that receives: one thread at a time.
class RingReceiver {
public:
    explicit RingReceiver(SharedRing &ring) : ring_(ring) {}

    // Bytes that have come, of one segment or of several in the ring; 0: none now; -1 (EPROTO): the
    // peer has broken the ring.
    ssize_t receive(void *to, size_t bytes);
    bool has_data() const
    {
        return left_ ||
               ring_.head.load(std::memory_order_seq_cst) != tail_.load(std::memory_order_relaxed);
    }
    // Whether a sender that sleeps should look again; after receive() and give_back().
    bool made_room();

    Lent lend(size_t most);
    void give_back(const Lent &);

private:
    int next();
    void copy_out(void *to, size_t bytes);
    void leave(unsigned place);
    void tell_tail();

    SharedRing &ring_;
    std::atomic<uint64_t> tail_{0};  // has_data() looks at it from other threads
    uint64_t told_tail_ = 0;
    std::atomic<uint32_t> left_{0};  // of the segment
    uint32_t offset_ = 0;            // in its place
    uint32_t padding_ = 0;           // behind its bytes in the ring
    int place_ = -1;
    uint32_t users_[SharedRing::kPlaces] = {};  // of each place: the segment, what was lent of it
};

template <class Wake> ssize_t RingSender::send(const iovec *parts, int count, Wake &&wake)
{
    ssize_t sent = 0;
    bool full = false;
    for (int i = 0; i < count && !full; i++) {
        auto data = static_cast<const uint8_t *>(parts[i].iov_base);
        for (size_t left = parts[i].iov_len; left && !full;) {
            const ssize_t space = room();
            if (space < 0) return -1;
            const auto there = static_cast<size_t>(space);
            size_t n = 0;
            int place = -1;
            if (data >= ring_.places[0] && data < ring_.places[SharedRing::kPlaces]) {
                // Reserved, and filled: it goes whole.
                place = place_of(data);
                if (there >= kHeader) n = left;
            } else if (left >= kByPlace && there >= kHeader && (place = take_tenant_end()) >= 0) {
                n = left < SharedRing::kPlaceBytes ? left : SharedRing::kPlaceBytes;
                memcpy(ring_.places[place], data, n);
            } else if (there >= kLeast) {
                const size_t most = (there - kHeader) & ~size_t{7};
                n = left < most ? left : most;
            }
            full = !n;
            if (full) break;
            put(static_cast<uint32_t>(n), place, data);
            data += n, left -= n, sent += static_cast<ssize_t>(n);
            // The receiver can begin with a large piece while the next is copied.
            if (place >= 0 && publish()) wake();
        }
    }
    if (publish()) wake();
    return sent;
}

}  // namespace rgpu::net
