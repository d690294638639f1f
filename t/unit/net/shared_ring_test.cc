// SPDX-License-Identifier: Apache-2.0
// What one end sends the other receives, whatever the sizes; and a peer that writes anything
// anywhere gets an error at most.
#include "net/transport/shared_ring.h"

#include <criterion/criterion.h>
#include <sys/mman.h>

#include <cerrno>
#include <memory>
#include <random>
#include <vector>

using namespace rgpu;
using namespace rgpu::net;

namespace {

struct Unmap {
    void operator()(SharedRing *r) const
    {
        munmap(reinterpret_cast<uint8_t *>(r) - 4096, sizeof *r + 8192);
    }
};

// With pages around it that nobody may touch.
std::unique_ptr<SharedRing, Unmap> new_ring()
{
    auto *p = static_cast<uint8_t *>(
        mmap(nullptr, sizeof(SharedRing) + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    cr_assert(p != MAP_FAILED);
    cr_assert_eq(mprotect(p + 4096, sizeof(SharedRing), PROT_READ | PROT_WRITE), 0);
    return std::unique_ptr<SharedRing, Unmap>(reinterpret_cast<SharedRing *>(p + 4096));
}

ssize_t send(RingSender &s, const void *data, size_t bytes)
{
    const iovec part{const_cast<void *>(data), bytes};
    return s.send(&part, 1, [] {});
}

}  // namespace

Test(shared_ring, bytes_keep_their_order_whatever_the_sizes)
{
    auto ring = new_ring();
    RingSender sender(*ring);
    RingReceiver receiver(*ring);
    std::mt19937_64 dice(7);
    const size_t kTotal = 64 << 20;
    std::vector<uint8_t> out(1 << 20), in(1 << 20);
    uint64_t written = 0, read = 0;
    auto byte = [](uint64_t at) { return static_cast<uint8_t>(at * 31 + (at >> 9)); };
    while (read < kTotal) {
        if (written < kTotal) {
            // Mostly small ones; now and then more than the ring and all places hold.
            size_t n = dice() % 8 ? dice() % 300 : dice() % out.size();
            for (size_t i = 0; i < n; i++) out[i] = byte(written + i);
            iovec parts[2] = {{out.data(), n / 3}, {out.data() + n / 3, n - n / 3}};
            const ssize_t sent = sender.send(parts, 2, [] {});
            cr_assert(sent >= 0 && static_cast<size_t>(sent) <= n);
            written += static_cast<uint64_t>(sent);
        }
        for (size_t k = dice() % 4; k; k--) {
            const ssize_t n =
                receiver.receive(in.data(), 1 + dice() % (dice() % 2 ? 100 : in.size()));
            cr_assert(n >= 0);
            for (ssize_t i = 0; i < n; i++)
                cr_assert_eq(in[static_cast<size_t>(i)], byte(read + static_cast<uint64_t>(i)),
                             "at %zu", static_cast<size_t>(read));
            read += static_cast<uint64_t>(n);
        }
        cr_assert(read <= written);
    }
}

Test(shared_ring, what_is_full_takes_nothing_and_goes_on_when_there_is_room)
{
    auto ring = new_ring();
    RingSender sender(*ring);
    RingReceiver receiver(*ring);
    std::vector<uint8_t> data(1 << 20, 3);
    size_t sent = 0;
    for (ssize_t n; (n = send(sender, data.data(), data.size())) > 0;)
        sent += static_cast<size_t>(n);
    cr_expect_eq(sent, SharedRing::kPlaces * SharedRing::kPlaceBytes + SharedRing::kRingBytes -
                           8 * (SharedRing::kPlaces + 1));
    cr_expect(!sender.has_room());
    cr_expect_eq(sender.places_under_way(), SharedRing::kPlaces);
    ring->sender_sleeps = 1;
    cr_expect(!receiver.made_room());
    // The first place is empty only with its last byte.
    cr_assert_eq(receiver.receive(data.data(), SharedRing::kPlaceBytes - 1),
                 SharedRing::kPlaceBytes - 1);
    cr_expect(!receiver.made_room());
    cr_assert_eq(receiver.receive(data.data(), 100), 1);
    cr_expect(receiver.made_room());
    cr_expect(!receiver.made_room(), "who sleeps is woken once");
    cr_expect(sender.has_place() && !sender.has_room(), "a place, but not room for anything");
    cr_assert_eq(send(sender, data.data(), 8), 0);
    while (!sender.has_room()) cr_assert_gt(receiver.receive(data.data(), data.size()), 0);
    cr_expect_gt(send(sender, data.data(), data.size()), 0);
}

Test(shared_ring, who_sleeps_is_woken_once)
{
    auto ring = new_ring();
    RingSender sender(*ring);
    RingReceiver receiver(*ring);
    int woken = 0;
    const iovec part{&woken, sizeof woken};
    sender.send(&part, 1, [&] { woken++; });
    cr_expect_eq(woken, 0);
    ring->receiver_sleeps = 1;
    sender.send(&part, 1, [&] { woken++; });
    sender.send(&part, 1, [&] { woken++; });
    cr_expect_eq(woken, 1);
    cr_expect(receiver.has_data());
}

Test(shared_ring, a_place_that_was_filled_goes_as_it_is)
{
    auto ring = new_ring();
    RingSender sender(*ring);
    RingReceiver receiver(*ring);
    auto *place = static_cast<uint8_t *>(sender.reserve());
    cr_assert(place == ring->places[0]);
    memset(place, 9, 1000);
    uint32_t header = 5;
    iovec parts[2] = {{&header, sizeof header}, {place, 1000}};
    cr_assert_eq(sender.send(parts, 2, [] {}), 1004);
    cr_expect(!receiver.lend(10).data, "the header is no place");
    uint8_t in[2000];
    cr_assert_eq(receiver.receive(in, sizeof in), 4, "a place is not mixed with what comes before");
    const Lent first = receiver.lend(600), second = receiver.lend(600);
    cr_assert(first.data == place && first.bytes == 600 && first.place == place);
    cr_assert(second.data == place + 600 && second.bytes == 400);
    receiver.give_back(first);
    cr_expect_eq(ring->returned.load(), 0u);
    receiver.give_back(second);
    cr_expect_eq(ring->returned.load(), 1u);
    cr_expect_eq(sender.places_under_way(), 0u);
    cr_expect(!receiver.has_data());
}

Test(shared_ring, a_place_that_was_not_sent_is_not_taken_back)
{
    auto ring = new_ring();
    RingSender sender(*ring);
    void *mine = sender.reserve();
    ring->returned = 0xffffffff;
    for (unsigned i = 1; i < SharedRing::kPlaces; i++) cr_expect(sender.reserve() != mine);
    cr_expect(!sender.reserve());
    sender.unreserve(mine);
    cr_expect(sender.reserve() == mine);
}

Test(shared_ring, segments_that_nobody_sends_break_the_connection)
{
    struct {
        uint64_t head;
        uint32_t bytes, place;
    } const wrong[] = {
        {SharedRing::kRingBytes + 8, 8, 0},
        {4, 0, 0},
        {9, 1, 0},
        {~0ull, 8, 0},
        {8, 0, 0},
        {16, 9, 0},
        {8, 1, 0},
        {16, ~0u, 0},
        {16, 0, 1},
        {8, SharedRing::kPlaceBytes + 1, 1},
        {8, ~0u, 1},
        {8, 1, SharedRing::kPlaces + 1},
        {8, 1, ~0u},
        {16, 0, 0},
    };
    for (const auto &w : wrong) {
        auto ring = new_ring();
        RingReceiver receiver(*ring);
        memcpy(ring->ring, &w.bytes, 4), memcpy(ring->ring + 4, &w.place, 4);
        ring->head = w.head;
        uint8_t in[100];
        errno = 0;
        cr_expect_eq(receiver.receive(in, sizeof in), -1, "head %llu, %u bytes, place %u",
                     static_cast<unsigned long long>(w.head), w.bytes, w.place);
        cr_expect_eq(errno, EPROTO);
    }
    auto ring = new_ring();
    RingSender sender(*ring);
    ring->tail = 1;  // more than was sent
    errno = 0;
    cr_expect_eq(send(sender, "x", 1), -1);
    cr_expect_eq(errno, EPROTO);
}

// Anything may be in the memory at any time: no access leaves it (the pages around it would end
// this process), and no call runs for ever.
Test(shared_ring, a_peer_that_scribbles_breaks_nothing_else)
{
    std::mt19937_64 dice(20261121);
    std::vector<uint8_t> data(600 << 10);
    int broken = 0, rounds = 0;
    for (int turn = 0; turn < 300; turn++) {
        auto ring = new_ring();
        RingSender sender(*ring);
        RingReceiver receiver(*ring);
        for (int step = 0; step < 60; step++) {
            const uint64_t value = dice() % 2 ? dice()
                                              : dice() % (2 * SharedRing::kRingBytes) & ~7ull;
            switch (dice() % 7) {
            case 0: ring->head = value; break;
            case 1: ring->tail = value; break;
            case 2: ring->returned = static_cast<uint32_t>(dice()); break;
            case 3:
                ring->receiver_sleeps = ring->sender_sleeps = static_cast<uint32_t>(dice());
                break;
            case 4:
                for (size_t at = 0; at < SharedRing::kRingBytes; at += 8) {
                    const uint32_t segment[2] = {
                        static_cast<uint32_t>(dice() % (dice() % 2 ? 64 : 300000)),
                        static_cast<uint32_t>(dice() % 20)};
                    memcpy(&ring->ring[at], segment, 8);
                }
                break;
            default: send(sender, data.data(), dice() % data.size());
            }
            const ssize_t n = dice() % 2 ? receiver.receive(data.data(), dice() % data.size()) : 0;
            broken += n < 0, rounds++;
            const Lent lent = receiver.lend(1 + dice() % 300000);
            if (lent.data) {
                cr_assert(lent.data >= ring->places[0] &&
                          static_cast<const uint8_t *>(lent.data) + lent.bytes <=
                              ring->places[SharedRing::kPlaces]);
                if (dice() % 2) receiver.give_back(lent);
            }
            if (void *place = dice() % 4 ? nullptr : sender.reserve())
                memset(place, 1, SharedRing::kPlaceBytes);
            receiver.made_room();
            sender.has_room();
        }
    }
    cr_expect(broken > 100, "%d of %d rounds", broken, rounds);
}
