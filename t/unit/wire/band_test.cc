// SPDX-License-Identifier: Apache-2.0
// Addresses of a band against a model: whatever is asked for and given back, nothing overlaps, the
// pages that are there are those that something lies in, and all of them go in the end. Also where
// each request for memory of the process fails in turn.
#include "wire/band.h"

#include <criterion/criterion.h>

#include <cstdlib>
#include <map>
#include <random>

#include "../new_fails.h"

using namespace rgpu::wire;

static constexpr uint64_t kBase = uint64_t{5} << 40, kPage = Band::kPage;

namespace {

// A driver with so much memory on each device.
struct MadeUp : Band::Pages {
    explicit MadeUp(uint64_t room) : room_(room) {}

    CUresult put(uint64_t address, uint64_t bytes, int device) override
    {
        cr_assert(address % kPage == 0 && bytes % kPage == 0 && bytes);
        if (bytes > room_ - used[device]) return CUDA_ERROR_OUT_OF_MEMORY;
        const auto next = there.lower_bound(address);
        cr_assert(next == there.end() || next->first >= address + bytes, "pages overlap");
        cr_assert(next == there.begin() ||
                      std::prev(next)->first + std::prev(next)->second.first <= address,
                  "pages overlap");
        const NewFails none(0);
        there[address] = {bytes, device};
        used[device] += bytes;
        return CUDA_SUCCESS;
    }
    void take(uint64_t address, uint64_t bytes, int device) override
    {
        const auto at = there.find(address);
        cr_assert(at != there.end(), "no page is there");
        cr_assert(at->second == std::pair(bytes, device), "it is another one");
        used[at->second.second] -= at->second.first;
        there.erase(at);
    }
    // Whether pages of the device are at all these addresses.
    bool has(uint64_t address, uint64_t bytes, int device) const
    {
        auto at = there.upper_bound(address);
        if (at == there.begin()) return false;
        --at;
        return at->second.second == device && address + bytes <= at->first + at->second.first;
    }

    const uint64_t room_;
    std::map<uint64_t, std::pair<uint64_t, int>> there;
    std::map<int, uint64_t> used;
};

uint64_t rounded(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

// The pages that what is alive needs, and one more at most while small pieces are there.
void check_pages(const MadeUp &pages, const std::map<uint64_t, Band::Block> &alive, int device)
{
    std::map<uint64_t, bool> shared;
    uint64_t large = 0;
    for (const auto &[base, b] : alive) {
        if (b.device != device) continue;
        if (b.bytes > Band::kShares)
            large += rounded(b.bytes, kPage);
        else
            shared[Band::page_of(base)] = true;
    }
    const auto at = pages.used.find(device);
    const uint64_t used = at == pages.used.end() ? 0 : at->second;
    const uint64_t needed = large + shared.size() * kPage;
    cr_assert(used == needed || (!shared.empty() && used == needed + kPage),
              "%lu pages on device %d for %lu", used / kPage, device, needed / kPage);
}

uint64_t random_size(std::mt19937_64 &random, uint64_t most)
{
    // Every magnitude as often as any other.
    const unsigned bits = random() % 30;
    return std::min<uint64_t>((uint64_t{1} << bits) + random() % (uint64_t{1} << bits), most);
}

// With each request for memory of the process failing in turn, and then with memory. What fails has
// changed nothing.
CUresult allocate_in_need(Band &band, const MadeUp &pages, const Band::Block &b, uint64_t &address)
{
    for (long n = 1;; n++) {
        auto before = pages.used;
        const NewFails from_here(n);
        try {
            return band.allocate(b.device, b.owner, b.bytes, address);
        } catch (const std::bad_alloc &) {
            const NewFails no_more(0);
            // A page that nothing lies in may have gone.
            for (const auto &[device, used] : pages.used)
                cr_assert(used <= before[device], "request %ld leaves pages", n);
        }
    }
}

// Returns how often there was no memory.
size_t walk(uint64_t seed, uint64_t room, int devices, int steps, bool in_need = false)
{
    MadeUp pages(room);
    Band band(kBase, uint64_t{1} << 40, pages);
    std::mt19937_64 random(seed);
    std::map<uint64_t, Band::Block> alive;
    size_t refused = 0;
    for (int i = 0; i < steps; i++) {
        const int device = static_cast<int>(random() % static_cast<unsigned>(devices));
        if (alive.empty() || random() % 100 < 55) {
            const uint64_t bytes = random_size(random, room / 2);
            uint64_t address = 0;
            const auto owner = static_cast<uint32_t>(random() % 3);
            const CUresult r =
                in_need ? allocate_in_need(band, pages, {0, bytes, device, owner}, address)
                        : band.allocate(device, owner, bytes, address);
            if (r) {
                cr_assert_eq(r, CUDA_ERROR_OUT_OF_MEMORY);
                // A page of its own, at least, did not fit.
                const uint64_t page = bytes > Band::kShares ? rounded(bytes, kPage) : kPage;
                cr_assert(pages.used[device] + page > room, "refused though there was room");
                refused++;
                continue;
            }
            cr_assert(band.contains(address) && address % Band::kUnit == 0);
            cr_assert(bytes <= Band::kShares || address % kPage == 0);
            cr_assert(pages.has(address, bytes, device), "memory is there");
            const auto next = alive.lower_bound(address);
            cr_assert(next == alive.end() || next->first >= address + bytes, "overlaps");
            cr_assert(next == alive.begin() ||
                          std::prev(next)->first + std::prev(next)->second.bytes <= address,
                      "overlaps");
            alive[address] = {address, bytes, device, owner};
        } else if (random() % 200 == 0) {
            const auto owner = static_cast<uint32_t>(random() % 3);
            size_t gone = 0;
            for (const Band::Block &b : band.forget_all(owner)) {
                cr_assert_eq(alive.at(b.base).bytes, b.bytes);
                alive.erase(b.base);
                band.release(b);
                gone++;
            }
            for (const auto &[base, b] : alive) cr_assert_neq(b.owner, owner);
        } else {
            auto at = alive.begin();
            std::advance(at, static_cast<long>(random() % alive.size()));
            const Band::Block b = at->second;
            const NewFails from_here(in_need);
            const auto inside = band.find(b.base + random() % b.bytes);
            cr_assert(inside && inside->base == b.base && inside->bytes == b.bytes &&
                      inside->device == b.device && inside->owner == b.owner);
            cr_assert(b.bytes == 1 || !band.forget(b.base + 1), "only where it begins");
            const auto gone = band.forget(b.base);
            cr_assert(gone && gone->bytes == b.bytes);
            cr_assert(!band.find(b.base) && !band.forget(b.base), "freed twice");
            if (!in_need && random() % 4 == 0) {
                band.remember(*gone);
            } else {
                band.release(*gone);
                alive.erase(at);
            }
        }
        for (int d = 0; d < devices; d++) check_pages(pages, alive, d);
    }
    for (const auto &[base, b] : alive) band.release(*band.forget(base));
    cr_assert(pages.there.empty(), "%zu pages are left over", pages.there.size());
    return refused;
}

}  // namespace

Test(band, keeps_to_a_model_whatever_comes)
{
    // RGPU_TEST_SEED: another walk.
    const char *seed = getenv("RGPU_TEST_SEED");
    const uint64_t first = seed ? strtoull(seed, nullptr, 10) : 1;
    size_t refused = 0;
    for (uint64_t s = first; s < first + 20; s++) {
        refused += walk(s, uint64_t{256} << 20, 2, 2000);
        refused += walk(s, uint64_t{16} << 20, 1, 2000);
    }
    cr_expect(refused > 100, "memory was short %zu times", refused);
}

Test(band, what_lacks_memory_of_the_process_has_done_nothing)
{
    size_t refused = 0;
    for (uint64_t seed = 1; seed <= 10; seed++)
        refused += walk(seed, uint64_t{16} << 20, 2, 2000, true);
    cr_expect(refused > 100, "memory was short %zu times", refused);
}

Test(band, moves_what_it_knows_without_memory)
{
    MadeUp pages(8 * kPage);
    Band band(kBase, 64 * kPage, pages);
    uint64_t a = 0, b = 0, c = 0, whole = 0;
    cr_assert(!band.allocate(0, 1, 512, a) && !band.allocate(0, 2, 512, b) &&
              !band.allocate(0, 2, 3 * kPage, c) && !band.add_pages(0, 2 * kPage, whole));
    Band::Lives gone;
    const NewFails from_here(1);
    cr_expect(band.move_to(gone, a) && !band.move_to(gone, a) && !band.find(a));
    band.move_all_to(gone, 2);
    cr_expect_eq(gone.size(), 3);
    for (const auto &l : gone) band.release(Band::block_of(l));
    cr_expect_eq(pages.used[0], 2 * kPage);
}

Test(band, gives_the_last_page_to_whoever_asks)
{
    MadeUp pages(4 * kPage);
    Band band(kBase, 64 * kPage, pages);
    uint64_t a = 0, b = 0, c = 0, large = 0;
    cr_assert(!band.allocate(0, 0, Band::kShares, a) && !band.allocate(0, 0, Band::kShares, b) &&
              !band.allocate(0, 0, 1, c));
    cr_expect_eq(pages.used[0], 2 * kPage);
    band.release(*band.forget(c));
    cr_expect_eq(pages.used[0], 2 * kPage, "one empty page is kept");
    cr_expect(!band.allocate(0, 0, 3 * kPage, large), "but not from who needs it");
    cr_expect_eq(band.allocate(0, 0, 1, c), CUDA_ERROR_OUT_OF_MEMORY);
    band.release(*band.forget(large));
    cr_expect(!band.allocate(0, 0, 1, c));
    for (uint64_t p : {a, b, c}) band.release(*band.forget(p));
    cr_expect(pages.there.empty());
}

Test(band, devices_share_no_page)
{
    MadeUp pages(4 * kPage);
    Band band(kBase, 64 * kPage, pages);
    uint64_t a = 0, b = 0;
    cr_assert(!band.allocate(0, 0, 512, a) && !band.allocate(1, 0, 512, b));
    cr_expect_neq(Band::page_of(a), Band::page_of(b));
    band.release(*band.forget(a));
    cr_expect_eq(pages.used[0], 0);
    cr_expect_eq(pages.used[1], kPage);
}

Test(band, says_when_its_addresses_are_used_up)
{
    MadeUp pages(uint64_t{1} << 40);
    Band band(kBase, 4 * kPage, pages);
    uint64_t a = 0, b = 0;
    cr_assert(!band.allocate(0, 0, 3 * kPage, a));
    cr_expect_eq(band.allocate(0, 0, 2 * kPage, b), Band::kNoAddresses);
    cr_expect(!band.allocate(0, 0, kPage, b));
    cr_expect_eq(band.allocate(0, 0, 1, b), Band::kNoAddresses);
}

Test(band, reserves_addresses_without_memory)
{
    MadeUp pages(uint64_t{1} << 40);
    Band band(kBase, 64 * kPage, pages);
    const uint64_t wide = band.reserve(4 * kPage, 8 * kPage);
    cr_assert(wide && wide % (8 * kPage) == 0);
    cr_expect(!band.reserve_at(wide, kPage), "it is not free");
    cr_expect(!band.reserve_at(wide + 8 * kPage + 1, kPage), "no page begins there");
    cr_assert(band.reserve_at(wide + 8 * kPage, kPage));
    cr_expect(pages.there.empty());
    uint64_t a = 0;
    cr_assert(!band.allocate(0, 0, 32 * kPage, a));
    cr_expect(a >= wide + 9 * kPage || a + 32 * kPage <= wide);
    cr_expect(!band.find(wide));
    band.unreserve(wide, 4 * kPage);
    cr_expect(band.reserve_at(wide, kPage));
}
