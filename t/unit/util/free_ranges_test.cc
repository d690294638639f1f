// SPDX-License-Identifier: Apache-2.0
// Stretches of free addresses: taken, put back, joined.
#include "util/free_ranges.h"

#include <criterion/criterion.h>

#include "../new_fails.h"

using rgpu::FreeRanges;

Test(free_ranges, what_is_put_back_is_one_stretch_again)
{
    FreeRanges free;
    free.add(100, 300);
    cr_expect_eq(free.take_lowest(100, 1), 100);
    cr_expect_eq(free.take_lowest(100, 1), 200);
    cr_expect_eq(free.take_lowest(100, 1), 300);
    cr_expect_eq(free.take_lowest(1, 1), 0, "nothing is left");
    free.add(100, 100);
    free.add(300, 100);
    cr_expect_eq(free.take_lowest(200, 1), 0, "there is a hole");
    const FreeRanges::Range all = free.add(200, 100);
    cr_expect(all.begin == 100 && all.bytes == 300);
    cr_expect_eq(free.take_lowest(300, 1), 100);
}

Test(free_ranges, stretches_end_at_a_boundary)
{
    FreeRanges free(64);
    free.add(64, 64);
    const FreeRanges::Range next = free.add(128, 64);
    cr_expect(next.begin == 128 && next.bytes == 64);
    cr_expect_eq(free.take_smallest(65), 0);
    const FreeRanges::Range before = free.add(32, 32);
    cr_expect(before.begin == 32 && before.bytes == 32);
}

Test(free_ranges, the_smallest_that_fits_is_taken)
{
    FreeRanges free;
    free.add(1000, 100);
    free.add(2000, 10);
    free.add(3000, 20);
    cr_expect_eq(free.take_smallest(10), 2000);
    cr_expect_eq(free.take_smallest(10), 3000);
    cr_expect_eq(free.take_smallest(10), 3010);
    cr_expect_eq(free.take_smallest(101), 0);
}

Test(free_ranges, alignment_leaves_what_lies_before)
{
    FreeRanges free;
    free.add(10, 100);
    cr_expect_eq(free.take_lowest(20, 32), 32);
    cr_expect_eq(free.take_lowest(22, 1), 10, "the rest before it");
    cr_expect_eq(free.take_lowest(58, 1), 52, "and behind");
    cr_expect_eq(free.take_lowest(1, 1), 0);
}

Test(free_ranges, only_what_is_free_is_taken_at_its_place)
{
    FreeRanges free;
    free.add(100, 100);
    cr_expect(!free.take_at(50, 10));
    cr_expect(!free.take_at(190, 11));
    cr_expect(free.take_at(150, 10));
    cr_expect(!free.take_at(159, 1));
    cr_expect(free.take_at(160, 40));
    cr_expect(free.take_at(100, 50));
    cr_expect(!free.take_at(100, 1));
}

Test(free_ranges, what_was_promised_needs_no_memory)
{
    FreeRanges free;
    free.add(1000, 1000);
    cr_assert_eq(free.take_lowest(500, 1, 5), 1000);
    {
        const NewFails from_here(1);
        for (const uint64_t begin : {1000, 1200, 1400, 1100, 1300}) free.add(begin, 100, 1);
    }
    cr_expect_eq(free.take_lowest(1000, 1), 1000, "all is one again");
}

Test(free_ranges, what_lacks_memory_has_done_nothing)
{
    FreeRanges free;
    free.add(1000, 1000);
    long n = 1;
    for (bool done = false; !done; n++) {
        const NewFails from_here(n);
        try {
            done = free.take_at(1400, 100);
        } catch (const std::bad_alloc &) {}
    }
    cr_expect(n > 2);
    cr_expect_eq(free.take_smallest(400), 1000);
    cr_expect_eq(free.take_smallest(500), 1500);
    cr_expect_eq(free.take_smallest(1), 0);
}
