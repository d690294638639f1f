// SPDX-License-Identifier: Apache-2.0
// Diffs of shared memory: exactly what changed arrives, and damage is told.
#include <criterion/criterion.h>

#include <cstring>
#include <random>

#include "wire/diff.h"

using namespace rgpu::wire;

using Bytes = std::vector<uint8_t>;

// Applies a diff; false when it is damaged. Notes every byte that it writes.
static bool put(const Bytes &diff, Bytes &to, std::vector<bool> *written = nullptr)
{
    return apply_diff(diff.data(), diff.size(), to.size(),
                      [&](size_t at, const uint8_t *data, size_t n) {
                          cr_assert(n > 0 && at <= to.size() && n <= to.size() - at,
                                    "%zu bytes at %zu of %zu", n, at, to.size());
                          memcpy(&to[at], data, n);
                          for (size_t i = 0; written && i < n; i++) (*written)[at + i] = true;
                      });
}

static Bytes diff_of(const Bytes &now, Bytes &twin)
{
    Bytes diff;
    cr_assert(make_diff(now.data(), twin.data(), now.size(), 0, SIZE_MAX, diff) == now.size());
    return diff;
}

Test(diff, of_equal_memory_is_empty)
{
    Bytes now(1000, 7), twin = now;
    cr_assert(diff_of(now, twin).empty());
}

Test(diff, names_exactly_the_bytes_that_changed)
{
    std::mt19937 random(1);
    for (size_t size : {1, 3, 63, 64, 65, 127, 128, 200, 4096, 10007}) {
        for (unsigned density : {1, 2, 10, 50, 90, 100}) {
            Bytes before(size), now(size);
            for (auto &b : before) b = static_cast<uint8_t>(random());
            now = before;
            std::vector<bool> changed(size);
            for (size_t i = 0; i < size; i++)
                if (random() % 100 < density)
                    now[i] ^= static_cast<uint8_t>(1 + random() % 255), changed[i] = true;
            Bytes twin = before, other = before;
            Bytes diff = diff_of(now, twin);
            cr_assert(twin == now, "the twin is what was read");
            std::vector<bool> written(size);
            cr_assert(put(diff, other, &written));
            cr_assert(other == now);
            cr_assert(written == changed, "bytes that did not change are not written");
        }
    }
}

Test(diff, keeps_what_the_other_side_changed_beside)
{
    Bytes agreed(256, 0), ours = agreed, theirs = agreed, our_twin = agreed;
    for (size_t i = 0; i < 256; i += 2) ours[i] = 1;
    for (size_t i = 1; i < 256; i += 2) theirs[i] = 2;
    cr_assert(put(diff_of(ours, our_twin), theirs));
    for (size_t i = 0; i < 256; i++) cr_assert(theirs[i] == (i % 2 ? 2 : 1));
}

Test(diff, goes_on_where_the_limit_stopped_it)
{
    std::mt19937 random(2);
    Bytes before(100000), now(100000), other(100000);
    for (auto &b : now) b = random() % 3 ? 0 : static_cast<uint8_t>(random());
    Bytes twin = before;
    size_t pieces = 0;
    for (size_t at = 0; at < now.size(); pieces++) {
        Bytes diff;
        const size_t next = make_diff(now.data(), twin.data(), now.size(), at, 1000, diff);
        cr_assert(next > at && (next == now.size() || next % kDiffUnit == 0));
        cr_assert(diff.size() < 1000 + 2 * kDiffUnit);
        cr_assert(put(diff, other));
        at = next;
    }
    cr_assert(pieces > 10);
    cr_assert(other == now && twin == now);
}

Test(diff, of_a_large_change_is_hardly_larger_than_it)
{
    Bytes now(1 << 20, 9), twin(1 << 20, 0);
    cr_assert(diff_of(now, twin).size() == now.size() + sizeof(DiffEntry));
}

static Bytes entry(uint32_t skip, uint32_t count, std::initializer_list<uint64_t> words = {},
                   size_t more = 0)
{
    Bytes b(sizeof(DiffEntry) + words.size() * 8 + more, 0xab);
    const DiffEntry e{skip, count};
    memcpy(b.data(), &e, sizeof e);
    if (words.size()) memcpy(b.data() + sizeof e, words.begin(), words.size() * 8);
    return b;
}

Test(diff, damaged_is_refused)
{
    auto refused = [](const Bytes &diff, size_t bytes) {
        Bytes to(bytes);
        return !put(diff, to);
    };
    cr_assert(!refused(entry(0, 1, {1}, 1), 64));
    cr_assert(refused(entry(0, 0), 64), "an entry of nothing");
    cr_assert(refused(entry(1, 1, {1}, 1), 64), "past the end");
    cr_assert(refused(entry(0xffffffff, 1, {1}, 1), 64), "far past the end");
    cr_assert(refused(entry(0, 0x7fffffff, {1}, 1), 64), "more units than there are");
    cr_assert(refused(entry(0, kDiffWhole, {}, 64), 64), "no units");
    cr_assert(refused(entry(0, kDiffWhole | 1, {}, 63), 64), "bytes are missing");
    cr_assert(refused(entry(0, kDiffWhole | 1, {}, 64), 63),
              "a whole unit where there is only part of one");
    cr_assert(refused(entry(0, 1, {uint64_t{1} << 63}, 1), 63), "a byte past the end");
    cr_assert(refused(entry(0, 1, {~uint64_t{0}}, 63), 64), "bytes are missing");
    cr_assert(refused(entry(0, 2, {1}, 1), 128), "the second mask is missing");
    cr_assert(refused(Bytes(7), 64), "half an entry");
}

Test(diff, truncated_or_changed_anywhere_writes_nothing_outside)
{
    std::mt19937 random(3);
    Bytes before(1000), now(1000);
    for (size_t i = 0; i < 1000; i++)
        now[i] = i < 300 || i % 5 == 0 ? static_cast<uint8_t>(1 + i) : 0;
    Bytes twin = before;
    const Bytes diff = diff_of(now, twin);
    for (size_t n = 0; n < diff.size(); n++) {
        Bytes to(1000);
        put(Bytes(diff.begin(), diff.begin() + static_cast<long>(n)), to);  // its own asserts
    }
    for (int round = 0; round < 20000; round++) {
        Bytes damaged = diff, to(1 + random() % 1000);
        for (unsigned i = 0; i <= random() % 3; i++)
            damaged[random() % damaged.size()] = static_cast<uint8_t>(random());
        put(damaged, to);
    }
}
