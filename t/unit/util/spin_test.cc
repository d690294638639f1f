// SPDX-License-Identifier: Apache-2.0
#include "util/spin.h"

#include <criterion/criterion.h>

using namespace rgpu;
using namespace std::chrono_literals;

namespace {

bool alone()
{
    Spin spin;
    return !spin.until([] { return true; });  // nobody looks on a machine with one processor
}

}  // namespace

Test(spin, it_ends_with_the_look_that_finds_something)
{
    if (alone()) cr_skip_test("one processor");
    Spin spin(0, 1h, 1us);
    int looks = 0;
    cr_assert(spin.until([&] { return ++looks == 3; }));
    cr_assert_eq(looks, 3);
}

Test(spin, it_rests_between_two_looks)
{
    if (alone()) cr_skip_test("one processor");
    constexpr std::chrono::microseconds kMoment = 3ms, kRest = 100us;
    Spin spin(0, kMoment, kRest);
    int looks = 0;
    cr_assert_not(spin.until([&] { return looks++, false; }));
    cr_assert_leq(looks, kMoment / kRest + 1);
}

Test(spin, who_looked_in_vain_some_times_does_not_look_for_a_while)
{
    if (alone()) cr_skip_test("one processor");
    Spin spin(0, 1us);
    int looked = 0, waits = 0;
    for (; waits < 1000; waits++) {
        bool look = false;
        spin.until([&] { return look = true, false; });
        if (!look) break;
        looked++;
    }
    cr_assert_gt(looked, 0);
    cr_assert_lt(waits, 1000, "it goes on looking in vain");
    int without = 1;
    for (bool look = false; without < 1000; without++) {
        spin.until([&] { return look = true; });
        if (look) break;
    }
    cr_assert_gt(without, looked);
    cr_assert_lt(without, 1000, "it never looks again");
}

Test(spin, a_pause_at_first_is_kept)
{
    Spin spin(2);
    cr_assert_not(spin.until([] { return true; }));
    cr_assert_not(spin.until([] { return true; }));
    cr_assert(alone() || spin.until([] { return true; }));
}
