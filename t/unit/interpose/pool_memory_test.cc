// SPDX-License-Identifier: Apache-2.0
// Memory that streams free and are given again, against a model of what their work comes behind: no
// stream gets memory that another may still use, none is lost, and all counts are exact. Also where
// each request for memory of the process fails in turn.
#include "interpose/state/pool_memory.h"

#include <criterion/criterion.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <vector>

#include "../new_fails.h"

using rgpu::interpose::PoolMemory;
using rgpu::interpose::StreamOrder;

namespace {

constexpr uint64_t kPage = PoolMemory::kPage;
constexpr size_t kStreams = 4, kEvents = 3;

// Calls with each request for memory failing in turn, and then with memory.
struct Need {
    bool is_there = false;

    // What throws has changed nothing, says `same`.
    template <class Call, class Same> auto strong(Call call, Same same) const
    {
        for (long n = 1; is_there; n++) {
            const NewFails from_here(n);
            try {
                return call();
            } catch (const std::bad_alloc &) {
                const NewFails no_more(0);
                cr_assert(same(), "request %ld", n);
            }
        }
        return call();
    }
    // Needs no memory.
    template <class Call> auto none(Call call) const
    {
        const NewFails from_here(is_there ? 1 : 0);
        return call();
    }
};

// How far each stream's work has come, as something else knows it.
using Clock = std::array<uint64_t, kStreams + 1>;
void join(Clock &a, const Clock &b)
{
    for (size_t i = 0; i < a.size(); i++) a[i] = std::max(a[i], b[i]);
}

struct Block {
    uint64_t bytes = 0;
    uint64_t stream = 0;  // that uses it
};

// One that was freed: its memory may be used once the stream has come so far.
struct Freed {
    uint64_t begin = 0, end = 0, stream = 0, until = 0;
};

struct World {
    World(uint64_t seed, bool in_need) : random(seed), need{in_need} {}

    std::mt19937_64 random;
    Need need;
    PoolMemory memory;
    StreamOrder order;
    std::map<uint64_t, Block> live;
    std::vector<Freed> freed;
    std::map<uint64_t, uint64_t> pages;  // and pieces; bytes, by their beginning
    uint64_t next_page = kPage * 1000, next_piece = kPage * 10;
    uint64_t used = 0, reserved = 0, used_high = 0, reserved_high = 0;

    std::array<Clock, kStreams + 1> streams{};
    std::array<Clock, kEvents + 1> events{};
    Clock host{};

    // What of the pool can be seen from outside.
    auto counts() const
    {
        return std::array{memory.used().now, memory.used().high, memory.reserved().now,
                          memory.reserved().high, memory.waiting()};
    }
    template <class Call> auto in_memory(Call call) const
    {
        const auto before = counts();
        return need.strong(call, [&] { return memory.is_sound() && counts() == before; });
    }
    auto known() const
    {
        std::array<StreamOrder::View, kStreams + 1> behind;
        std::array<uint64_t, kEvents + 1> records{};
        for (uint64_t s = 1; s <= kStreams; s++) behind[s] = order.behind(s);
        for (uint64_t e = 1; e <= kEvents; e++) records[e] = order.seen(e).record;
        return std::pair(behind, records);
    }
    template <class Call> void in_order(Call call) const
    {
        const auto before = known();
        need.strong(call, [&] { return known() == before; });
    }

    uint64_t any_stream() { return 1 + random() % kStreams; }
    uint64_t any_event() { return 1 + random() % kEvents; }
    Clock seen_by(uint64_t stream) const
    {
        Clock c = streams[stream];
        join(c, host);
        return c;
    }
    void work(uint64_t stream)
    {
        streams[stream] = seen_by(stream);
        streams[stream][stream]++;
    }

    void may_use(uint64_t begin, uint64_t bytes, const Clock &clock, const char *who)
    {
        for (const Freed &f : freed)
            cr_assert(f.end <= begin || f.begin >= begin + bytes || clock[f.stream] >= f.until,
                      "%s gets what stream %lu may still use", who, f.stream);
        std::erase_if(freed, [&](const Freed &f) {  // what is left of them is not looked at
            return f.begin >= begin && f.end <= begin + bytes;
        });
        for (const auto &[base, b] : live)
            cr_assert(base + PoolMemory::rounded(b.bytes) <= begin || base >= begin + bytes,
                      "%s gets what is given out", who);
    }

    void allocate(uint64_t stream)
    {
        const unsigned bits = random() % 24;
        const uint64_t bytes = (uint64_t{1} << bits) + random() % (uint64_t{1} << bits);
        uint64_t at = in_memory([&] { return memory.take(bytes, stream); });
        if (!at && random() % 2)
            for (const auto &[other, until] : order.before(stream))
                if ((at = in_memory([&] { return memory.take_from(bytes, other, until); }))) break;
        if (at) {
            may_use(at, PoolMemory::rounded(bytes), seen_by(stream), "a stream");
            uint64_t end = at;  // all of it lies in what the pool has
            for (auto p = pages.upper_bound(at); end < at + bytes && p != pages.begin();
                 p = std::next(p))
                if (const auto &[first, n] = *std::prev(p); first <= end && end - first < n)
                    end = first + n;
                else
                    break;
            cr_assert(end >= at + bytes, "memory that the pool has not");
        } else {
            const uint64_t n = (bytes + kPage - 1) / kPage * kPage;
            const bool piece = n > 4 * kPage;
            uint64_t &next = piece ? next_piece : next_page;
            at = next;
            next += n;
            in_memory([&] {
                memory.grow({at, n}, piece ? PoolMemory::Kind::piece : PoolMemory::Kind::pages,
                            bytes);
            });
            for (uint64_t p = 0; p < (piece ? 1 : n / kPage); p++)
                pages[at + p * kPage] = piece ? n : kPage;
            reserved += n;
        }
        live[at] = {bytes, stream};
        used += PoolMemory::rounded(bytes);
        work(stream);
        count();
    }

    void free(uint64_t base, uint64_t stream)
    {
        const uint64_t bytes = live.at(base).bytes;
        // The program has made sure that the memory's last use comes before.
        join(streams[stream], streams[live.at(base).stream]);
        freed.push_back({base, base + PoolMemory::rounded(bytes), stream, seen_by(stream)[stream]});
        in_order([&] { order.expect(stream); });
        need.none([&] { memory.free({base, bytes}, stream, order.freed(stream)); });
        live.erase(base);
        used -= PoolMemory::rounded(bytes);
        count();
    }

    void over(const StreamOrder::View &view)
    {
        for (const auto &[stream, until] : view) {
            need.none([&] {
                memory.over(stream, until);
                if (!memory.waits_for(stream)) order.settled(stream);
            });
        }
    }

    void release(uint64_t keep)
    {
        for (const auto &[begin, bytes] : in_memory([&] { return memory.release(keep); })) {
            may_use(begin, bytes, host, "another program");
            for (uint64_t at = begin; at < begin + bytes;) {
                const auto page = pages.find(at);
                cr_assert(page != pages.end() && page->second <= begin + bytes - at);
                at += page->second;
                reserved -= page->second;
                pages.erase(page);
            }
        }
        count();
    }

    void count()
    {
        used_high = std::max(used_high, used), reserved_high = std::max(reserved_high, reserved);
        cr_assert_eq(memory.used().now, used);
        cr_assert_eq(memory.reserved().now, reserved);
        cr_assert_eq(memory.used().high, used_high);
        cr_assert_eq(memory.reserved().high, reserved_high);
        cr_assert_leq(memory.waiting(), reserved - used);
        if (random() % 64 == 0) cr_assert(memory.is_sound());
    }

    void record(uint64_t event, uint64_t stream)
    {
        need.strong([&] { order.records(event, stream); },
                    [&] { return !order.seen(event).record; });
        work(stream);
        events[event] = streams[stream];
    }

    // Perhaps it is recorded again while somebody waits for it.
    bool is_recorded_again(uint64_t event)
    {
        if (random() % 8) return false;
        record(event, any_stream());
        return true;
    }

    void wait(uint64_t stream, uint64_t event)
    {
        const auto seen = order.seen(event);
        if (!is_recorded_again(event)) join(streams[stream], events[event]);
        if (order.is_so(event, seen)) in_order([&] { order.waits(stream, seen.view); });
    }

    void synchronise_event(uint64_t event)
    {
        const auto seen = order.seen(event);
        if (!is_recorded_again(event)) join(host, events[event]);
        if (order.is_so(event, seen)) over(seen.view);
    }

    void synchronise(uint64_t stream)
    {
        const auto view = order.behind(stream);
        const Clock before = seen_by(stream);
        if (random() % 4 == 0) allocate(stream);  // another thread
        join(host, before);
        over(view);
    }
};

void walk(uint64_t seed, bool in_need = false)
{
    World w(seed, in_need);
    for (int i = 0; i < 5000; i++) {
        const unsigned what = w.random() % 100;
        if (what < 45) {
            w.allocate(w.any_stream());
        } else if (what < 85 && !w.live.empty()) {
            auto at = w.live.begin();
            std::advance(at, static_cast<long>(w.random() % w.live.size()));
            // Mostly the stream that uses it frees it.
            w.free(at->first, w.random() % 4 ? at->second.stream : w.any_stream());
        } else if (what < 89) {
            w.record(w.any_event(), w.any_stream());
        } else if (what < 93) {
            w.wait(w.any_stream(), w.any_event());
        } else if (what < 95) {
            w.synchronise_event(w.any_event());
        } else if (what < 97) {
            w.synchronise(w.any_stream());
        } else if (what < 99) {
            w.release(w.random() % 2 ? 0 : w.random() % (w.reserved + 1));
        }
    }
    while (!w.live.empty()) w.free(w.live.begin()->first, w.any_stream());
    for (uint64_t s = 1; s <= kStreams; s++) {
        join(w.host, w.seen_by(s));
        w.over(w.order.behind(s));
    }
    cr_assert(!w.order.any());
    cr_assert_eq(w.memory.waiting(), 0);
    w.release(0);
    cr_assert_eq(w.reserved, 0, "%lu bytes are lost", w.reserved);
    cr_assert(w.pages.empty());
}

}  // namespace

Test(pool_memory, no_stream_gets_what_another_may_still_use)
{
    const char *given = getenv("RGPU_SEED");
    if (given) return walk(strtoull(given, nullptr, 10));
    for (uint64_t seed = 1; seed <= 100; seed++) walk(seed);
}

Test(pool_memory, what_lacks_memory_of_the_process_has_done_nothing)
{
    for (uint64_t seed = 1; seed <= 4; seed++) walk(seed, true);
}

Test(pool_memory, a_stream_has_its_own_memory_again_at_once)
{
    PoolMemory m;
    StreamOrder order;
    m.grow({kPage, kPage}, PoolMemory::Kind::pages, 1000);
    for (int i = 0; i < 10; i++) {
        m.free({kPage, 1000}, 7, order.freed(7));
        cr_assert_eq(m.take(600, 8), kPage + 1024, "the rest of the page is nobody's");
        cr_assert_eq(m.take(1000, 7), kPage);
        m.free({kPage + 1024, 600}, 8, order.freed(8));
        m.over(8, order.behind(8).at(8));
    }
    cr_assert_eq(m.reserved().now, kPage);
}

Test(pool_memory, what_lies_side_by_side_is_one_again)
{
    PoolMemory m;
    StreamOrder order;
    for (uint64_t i = 1; i <= 4; i++) m.grow({i * kPage, kPage}, PoolMemory::Kind::pages, kPage);
    for (const uint64_t i : {2, 4, 1, 3}) m.free({i * kPage, kPage}, 7, order.freed(7));
    cr_assert_eq(m.take(4 * kPage, 7), kPage);
    m.free({kPage, 4 * kPage}, 7, order.freed(7));
    cr_assert(m.release(0).empty(), "the stream may still use it");
    m.over(7, order.behind(7).at(7));
    cr_assert_eq(m.release(3 * kPage).size(), 1);
    cr_assert_eq(m.reserved().now, 3 * kPage);
}

Test(pool_memory, a_piece_goes_as_a_whole)
{
    PoolMemory m;
    StreamOrder order;
    m.grow({kPage, 20 * kPage}, PoolMemory::Kind::piece, 20 * kPage);
    m.grow({21 * kPage, 20 * kPage}, PoolMemory::Kind::piece, 19 * kPage);
    m.free({kPage, 20 * kPage}, PoolMemory::kNobody, 0);
    cr_assert_eq(m.take(21 * kPage, 7), 0, "two pieces are not one");
    const auto gone = m.release(0);
    cr_assert(gone.size() == 1 && gone.front().begin == kPage && gone.front().bytes == 20 * kPage);
    cr_assert_eq(m.take(kPage, 7), 40 * kPage);
}
