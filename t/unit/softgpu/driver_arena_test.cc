// SPDX-License-Identifier: Apache-2.0
// Device memory: alignment, sharing of pages, what comes back, and that pages without memory fault.
#include "softgpu/driver/base/arena.h"

#include <criterion/criterion.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <vector>

using rgpu::softgpu::driver::Arena;
using rgpu::softgpu::driver::open_shared_file;

namespace {

constexpr uint64_t kSize = 64 * Arena::kPage;

struct Count final : Arena::Account {
    uint64_t limit = kSize, used = 0;
    bool take(uint64_t bytes) override
    {
        if (bytes > limit - used) return false;
        used += bytes;
        return true;
    }
    void give(uint64_t bytes) override { used -= bytes; }
};

uint64_t reserve()
{
    void *p = mmap(nullptr, kSize + Arena::kPage, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    cr_assert_neq(p, MAP_FAILED);
    return (reinterpret_cast<uint64_t>(p) + Arena::kPage - 1) / Arena::kPage * Arena::kPage;
}

}  // namespace

Test(driver_arena, small_requests_share_a_page)
{
    Count count;
    Arena arena(reserve(), kSize, count);
    const uint64_t a = arena.allocate(1), b = arena.allocate(513), c = arena.allocate(100);
    cr_expect(a && b && c);
    cr_expect(a % 512 == 0 && b % 512 == 0 && c % 512 == 0);
    cr_expect_eq(b, a + 512);
    cr_expect_eq(c, b + 1024);
    cr_expect_eq(count.used, Arena::kPage);
    arena.free(b, 513);
    cr_expect_eq(arena.allocate(1000), b);
    arena.free(a, 1);
    arena.free(b, 1000);
    arena.free(c, 100);
    cr_expect_eq(count.used, 0);
}

Test(driver_arena, large_requests_are_whole_pages)
{
    Count count;
    count.limit = 10 * Arena::kPage;
    Arena arena(reserve(), kSize, count);
    const uint64_t a = arena.allocate(3 * Arena::kPage + 1);
    cr_expect_eq(a % Arena::kPage, 0);
    cr_expect_eq(count.used, 4 * Arena::kPage);
    cr_expect_eq(arena.allocate(7 * Arena::kPage), 0);
    const uint64_t b = arena.allocate(6 * Arena::kPage);
    cr_expect_neq(b, 0);
    arena.free(a, 3 * Arena::kPage + 1);
    arena.free(b, 6 * Arena::kPage);
    cr_expect_eq(arena.allocate(10 * Arena::kPage), a);
}

Test(driver_arena, fresh_pages_are_zero)
{
    Count count;
    Arena arena(reserve(), kSize, count);
    const uint64_t a = arena.allocate(Arena::kPage);
    memset(reinterpret_cast<void *>(a), 0xff, Arena::kPage);
    arena.free(a, Arena::kPage);
    const uint64_t b = arena.allocate(Arena::kPage);
    cr_assert_eq(a, b);
    for (uint64_t i = 0; i < Arena::kPage; i += 4096)
        cr_assert_eq(*reinterpret_cast<uint8_t *>(b + i), 0);
}

// The kernel refuses to read from an address without memory: EFAULT, where a load would be SIGSEGV.
static bool is_there(uint64_t address)
{
    int fds[2];
    cr_assert_eq(pipe(fds), 0);
    const bool there = write(fds[1], reinterpret_cast<void *>(address), 1) == 1;
    close(fds[0]);
    close(fds[1]);
    return there;
}

Test(driver_arena, freed_pages_fault)
{
    Count count;
    Arena arena(reserve(), kSize, count);
    const uint64_t a = arena.allocate(4096);
    cr_expect(is_there(a));
    cr_expect(!is_there(a + Arena::kPage));
    arena.free(a, 4096);
    cr_expect(!is_there(a));
}

Test(driver_arena, random_use_never_overlaps_and_leaves_nothing)
{
    Count count;
    Arena arena(reserve(), kSize, count);
    std::mt19937_64 random(7);
    struct Piece {
        uint64_t address, bytes;
    };
    std::vector<Piece> live;
    for (int step = 0; step < 20000; step++) {
        if (live.size() < 200 && random() % 2) {
            const uint64_t bytes = 1 + random() % (random() % 8 ? 20000 : 3 << 20);
            const uint64_t a = arena.allocate(bytes);
            if (!a) continue;
            // Its number at both ends: whoever overlaps changes it.
            *reinterpret_cast<uint8_t *>(a) = *reinterpret_cast<uint8_t *>(a + bytes - 1) =
                static_cast<uint8_t>(a >> 9);
            live.push_back({a, bytes});
        } else if (!live.empty()) {
            std::swap(live[random() % live.size()], live.back());
            const Piece p = live.back();
            live.pop_back();
            cr_assert_eq(*reinterpret_cast<uint8_t *>(p.address),
                         static_cast<uint8_t>(p.address >> 9));
            cr_assert_eq(*reinterpret_cast<uint8_t *>(p.address + p.bytes - 1),
                         static_cast<uint8_t>(p.address >> 9));
            arena.free(p.address, p.bytes);
        }
    }
    for (const Piece &p : live) arena.free(p.address, p.bytes);
    cr_expect_eq(count.used, 0);
    cr_expect_neq(arena.allocate(kSize), 0);
}

// Against a map of the pages.
Test(driver_arena, addresses_are_reserved_at_a_place_or_anywhere)
{
    Count count;
    const uint64_t base = reserve();
    Arena arena(base, kSize, count);
    std::mt19937_64 dice(22);
    std::vector<bool> taken(kSize / Arena::kPage);
    std::vector<std::pair<size_t, size_t>> pieces;  // first page, pages
    for (int step = 0; step < 20000; step++) {
        if (!pieces.empty() && dice() % 2) {
            const size_t i = dice() % pieces.size();
            const auto [first, pages] = pieces[i];
            arena.unreserve(base + first * Arena::kPage, pages * Arena::kPage);
            for (size_t p = 0; p < pages; p++) taken[first + p] = false;
            pieces.erase(pieces.begin() + static_cast<long>(i));
            continue;
        }
        size_t first = dice() % taken.size();
        const size_t pages = 1 + dice() % 9;
        bool free = first + pages <= taken.size();
        for (size_t p = 0; free && p < pages; p++) free = !taken[first + p];
        if (dice() % 2) {
            cr_assert_eq(arena.reserve_at(base + first * Arena::kPage, pages * Arena::kPage), free);
            if (!free) continue;
        } else {
            const uint64_t at = arena.reserve(pages * Arena::kPage, Arena::kPage);
            if (!at) continue;
            first = (at - base) / Arena::kPage;
            for (size_t p = 0; p < pages; p++) cr_assert_not(taken[first + p]);
        }
        for (size_t p = 0; p < pages; p++) taken[first + p] = true;
        pieces.emplace_back(first, pages);
    }
    for (const auto &[first, pages] : pieces)
        arena.unreserve(base + first * Arena::kPage, pages * Arena::kPage);
    // Nothing was lost, and nothing outside is given.
    cr_expect(arena.reserve_at(base, kSize));
    arena.unreserve(base, kSize);
    for (uint64_t wrong : {base - Arena::kPage, base + 512, base + kSize, uint64_t{0},
                           UINT64_MAX - Arena::kPage + 1})
        cr_expect_not(arena.reserve_at(wrong, Arena::kPage), "%lx", wrong);
    cr_expect_not(arena.reserve_at(base, kSize + Arena::kPage));
    cr_expect_not(arena.reserve_at(base, UINT64_MAX - Arena::kPage + 1));
}

// As exportable pools have it: another mapping of the file shows the same, and freed pages are gone
// from it.
Test(driver_arena, memory_of_a_file_is_the_file_s)
{
    Count count;
    const uint64_t base = reserve();
    const int file = memfd_create("arena", MFD_CLOEXEC);
    cr_assert_eq(ftruncate(file, static_cast<off_t>(kSize)), 0);
    Arena arena(base, kSize, count, file);
    const uint64_t small = arena.allocate(1000), large = arena.allocate(3 * Arena::kPage);
    memset(reinterpret_cast<void *>(small), 1, 1000);
    memset(reinterpret_cast<void *>(large), 2, 3 * Arena::kPage);
    unsigned char byte = 0;
    cr_assert_eq(pread(file, &byte, 1, static_cast<off_t>(small - base + 999)), 1);
    cr_expect_eq(byte, 1);
    cr_assert_eq(pread(file, &byte, 1, static_cast<off_t>(large - base + 3 * Arena::kPage - 1)), 1);
    cr_expect_eq(byte, 2);
    arena.free(large, 3 * Arena::kPage);
    cr_assert_eq(pread(file, &byte, 1, static_cast<off_t>(large - base)), 1);
    cr_expect_eq(byte, 0);
    struct stat about = {};
    cr_assert_eq(fstat(file, &about), 0);
    cr_expect_leq(about.st_blocks * 512, static_cast<off_t>(Arena::kPage));
    const uint64_t again = arena.allocate(3 * Arena::kPage);
    cr_expect_eq(*reinterpret_cast<unsigned char *>(again), 0);
    arena.free(again, 3 * Arena::kPage);
    arena.free(small, 1000);
    cr_expect_eq(count.used, 0);
    close(file);
}

Test(driver_arena, shared_memory_stays_in_its_place)
{
    Count count;
    Arena arena(reserve(), kSize, count);
    const uint64_t small = arena.allocate(1000), neighbour = arena.allocate(1000),
                   large = arena.allocate(3 * Arena::kPage);
    memset(reinterpret_cast<void *>(small), 1, 1000);
    memset(reinterpret_cast<void *>(neighbour), 2, 1000);
    memset(reinterpret_cast<void *>(large), 3, 3 * Arena::kPage);
    uint64_t offset = 1;
    auto name = arena.share(small, 1000, offset);
    cr_assert(name.has_value());
    cr_expect_eq(offset, small % Arena::kPage);
    auto again = arena.share(neighbour, 1000, offset);
    cr_expect(again.has_value() && again->key == name->key, "pieces of a page are in one file");
    auto whole = arena.share(large, 3 * Arena::kPage, offset);
    cr_expect(whole.has_value() && whole->key != name->key && offset == 0);

    auto file = open_shared_file(*whole);
    cr_assert(file.has_value());
    auto *seen = static_cast<char *>(
        mmap(nullptr, 3 * Arena::kPage, PROT_READ | PROT_WRITE, MAP_SHARED, file->get(), 0));
    cr_assert_neq(seen, MAP_FAILED);
    cr_expect(seen[0] == 3 && seen[3 * Arena::kPage - 1] == 3);
    seen[5] = 7;
    cr_expect_eq(reinterpret_cast<char *>(large)[5], 7);
    cr_expect(reinterpret_cast<char *>(small)[999] == 1 &&
              reinterpret_cast<char *>(neighbour)[999] == 2);

    const uint64_t used = count.used;
    arena.free(large, 3 * Arena::kPage);
    cr_expect_eq(count.used, used - 3 * Arena::kPage);
    cr_expect_not(open_shared_file(*whole).has_value(), "who comes late finds nothing");
    const uint64_t fresh = arena.allocate(3 * Arena::kPage);
    cr_expect_eq(reinterpret_cast<char *>(fresh)[5], 0, "fresh memory is nobody's");
    arena.free(small, 1000);
    arena.free(neighbour, 1000);
    cr_expect_not(open_shared_file(*name).has_value());
}
