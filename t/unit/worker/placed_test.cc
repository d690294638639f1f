// SPDX-License-Identifier: Apache-2.0
// The client's part of a band, as both sides see it: what a client gives out that keeps to the
// rules the worker takes, frame by frame, and both know the same credit. What it may not say is
// refused and changes nothing.
#include "worker/bands/placed.h"

#include <criterion/criterion.h>

#include <cstdlib>
#include <deque>
#include <map>
#include <random>

#include "wire/bands.h"

using namespace rgpu::worker;
using rgpu::wire::Band;

namespace {

constexpr uint64_t kBegin = rgpu::wire::placed_begin(0), kBytes = rgpu::wire::kPlacedBytes;
constexpr uint64_t kPage = Band::kPage;

// A client: gives out addresses against its credit.
struct Client : Band::Pages {
    CUresult put(uint64_t, uint64_t bytes, int device) override
    {
        if (bytes / kPage > unused[device]) return CUDA_ERROR_OUT_OF_MEMORY;
        unused[device] -= bytes / kPage;
        return CUDA_SUCCESS;
    }
    void take(uint64_t, uint64_t bytes, int device) override { unused[device] += bytes / kPage; }

    std::map<int, uint64_t> unused;
    Band band{kBegin, kBytes, *this};
};

uint64_t random_size(std::mt19937_64 &random)
{
    const unsigned bits = random() % 25;
    return (uint64_t{1} << bits) + random() % (uint64_t{1} << bits);
}

size_t pages_of(const Placed &p) { return p.unused(0) + p.unused(1); }

void walk(uint64_t seed)
{
    std::mt19937_64 random(seed);
    Client client;
    Placed worker(kBegin, kBytes);
    std::map<uint64_t, Band::Block> alive;
    std::deque<Band::Block> leaving;  // the worker frees them later, and the client knows
    uint64_t granted[2] = {};
    for (int i = 0; i < 4000; i++) {
        const int device = static_cast<int>(random() % 2);
        const unsigned what = random() % 100;
        if (what < 50) {
            const uint64_t bytes = random_size(random);
            const uint32_t owner = random() % 3;
            uint64_t address = 0;
            if (client.band.allocate(device, owner, bytes, address)) {
                const uint64_t more = 1 + random() % 20;
                worker.grant(device, more);
                client.unused[device] += more, granted[device] += more;
                continue;
            }
            const Band::Block b{address, bytes, device, owner};
            cr_assert(worker.allocate(b), "%lu bytes at %lx are refused", bytes, address);
            alive[address] = b;
        } else if (what < 90 && !alive.empty()) {
            auto at = alive.begin();
            std::advance(at, static_cast<long>(random() % alive.size()));
            const Band::Block b = at->second;
            cr_assert(worker.find(b.base + b.bytes - 1)->base == b.base);
            const auto there = worker.forget(b.base);
            cr_assert(there && there->bytes == b.bytes && there->owner == b.owner);
            cr_assert(!worker.find(b.base) && !worker.forget(b.base) && !worker.is_gone(b.base));
            cr_assert(client.band.forget(b.base).has_value());
            alive.erase(at);
            if (random() % 4) {
                worker.release(b);
                client.band.release(b);
                cr_assert(worker.is_gone(b.base));
            } else {
                leaving.push_back(b);
            }
        } else if (what < 95 && !leaving.empty()) {
            worker.release(leaving.front());
            client.band.release(leaving.front());
            leaving.pop_front();
        } else {
            client.band.drop_spares();
            const uint64_t pages = random() % (client.unused[device] + 1);
            cr_assert(worker.give_back(device, pages));
            client.unused[device] -= pages, granted[device] -= pages;
        }
        for (int d = 0; d < 2; d++)
            cr_assert(worker.unused(d) >= client.unused[d], "the client has more than it may");
        if (random() % 100 == 0) {
            client.band.drop_spares();
            for (int d = 0; d < 2; d++) cr_assert_eq(worker.unused(d), client.unused[d]);
        }
    }
    for (const auto &[base, b] : alive) worker.release(*worker.forget(base));
    for (const Band::Block &b : leaving) worker.release(b);
    cr_assert_eq(pages_of(worker), granted[0] + granted[1], "all of it is credit in the end");
}

}  // namespace

Test(placed, takes_what_a_client_gives_out)
{
    // RGPU_TEST_SEED: another walk.
    const char *seed = getenv("RGPU_TEST_SEED");
    const uint64_t first = seed ? strtoull(seed, nullptr, 10) : 1;
    for (uint64_t s = first; s < first + 30; s++) walk(s);
}

Test(placed, refuses_what_may_not_be_and_changes_nothing)
{
    Placed p(kBegin, kBytes);
    p.grant(0, 8);
    cr_assert(p.allocate({kBegin, 1024, 0, 1}));
    cr_assert(p.allocate({kBegin + 4 * kPage, 2 * kPage, 0, 1}));
    const Band::Block lies[] = {
        {kBegin, 512, 0, 1},                      // taken
        {kBegin + 512, 512, 0, 1},                // inside of another
        {kBegin + 1024, 512, 1, 1},               // another device's page
        {kBegin + 1025, 512, 0, 1},               // no unit begins there
        {kBegin + kPage - 512, 1024, 0, 1},       // over the end of a page
        {kBegin + kPage, 0, 0, 1},                // no bytes
        {kBegin + kPage + 512, 2 * kPage, 0, 1},  // no page begins there
        {kBegin, 2 * kPage, 0, 1},                // a page that others share
        {kBegin + 3 * kPage, 2 * kPage, 0, 1},    // ... and one that another has
        {kBegin + 5 * kPage, 512, 0, 1},          // in the middle of another
        {kBegin + 8 * kPage, 6 * kPage, 0, 1},    // more than the credit
        {kBegin + 8 * kPage, rgpu::wire::kMostPlaced + 1, 0, 1},
        {kBegin + 8 * kPage, ~uint64_t{0}, 0, 1},
        {kBegin + 8 * kPage, 512, 1, 1},             // credit of another device
        {kBegin - kPage, 512, 0, 1},                 // before the part
        {kBegin + kBytes, 512, 0, 1},                // behind it
        {kBegin + kBytes - kPage, 2 * kPage, 0, 1},  // over its end
        {0, 512, 0, 1},
        {~uint64_t{511}, 512, 0, 1},
    };
    for (const Band::Block &lie : lies) {
        cr_expect(!p.allocate(lie), "%lu bytes at %lx", lie.bytes, lie.base);
        cr_expect_eq(p.unused(0), 5);
    }
    cr_expect(!p.give_back(0, 6) && !p.give_back(1, 1) && !p.give_back(0, ~uint64_t{0}));
    cr_expect(p.find(kBegin)->bytes == 1024 && !p.find(kBegin + 1024));
    // What is being freed is still there.
    const auto block = p.forget(kBegin);
    cr_assert(block.has_value());
    cr_expect(!p.allocate({kBegin, 512, 0, 1}) && !p.is_gone(kBegin + 100));
    cr_expect_eq(p.release(*block).count, 1);
    cr_expect(p.is_gone(kBegin) && p.allocate({kBegin, 512, 0, 1}));
}

Test(placed, memory_of_an_owner_ends_with_it)
{
    Placed p(kBegin, kBytes);
    p.grant(0, 8);
    cr_assert(p.allocate({kBegin, 512, 0, 1}) && p.allocate({kBegin + 512, 512, 0, 2}) &&
              p.allocate({kBegin + kPage, 3 * kPage, 0, 1}));
    const auto gone = p.forget_all(1);
    cr_assert_eq(gone.size(), 2);
    cr_expect_eq(p.release(gone[0]).count, 0, "the page is another one's, too");
    cr_expect_eq(p.release(gone[1]).count, 3);
    cr_expect_eq(p.unused(0), 7);
    cr_expect(p.find(kBegin + 512).has_value());
}
