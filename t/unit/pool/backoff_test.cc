// SPDX-License-Identifier: Apache-2.0
#include "pool/client/backoff.h"

#include <criterion/criterion.h>

#include "util/clock.h"
#include "util/defaults.h"

using namespace rgpu;
using namespace rgpu::pool;

Test(backoff, pauses_double_up_to_the_last)
{
    cr_assert_eq(pause(0, 0.5), defaults::kFirstPause);
    cr_assert_eq(pause(1, 0.5), defaults::kFirstPause * 2);
    cr_assert_eq(pause(3, 0.5), defaults::kFirstPause * 8);
    cr_assert_eq(pause(100, 0.5), defaults::kLastPause);
}

Test(backoff, jitter_is_a_quarter_at_most)
{
    for (int n : {0, 3, 100}) {
        double middle = static_cast<double>(pause(n, 0.5).count());
        cr_assert_geq(static_cast<double>(pause(n, 0).count()), middle * 0.74);
        cr_assert_leq(static_cast<double>(pause(n, 0.999).count()), middle * 1.26);
    }
}

Test(backoff, begins_with_fractions_of_the_first_pause)
{
    Backoff backoff(2);
    for (int round = 0; round < 20; ++round) {
        cr_expect_leq(backoff.pause(0).count() * 4, defaults::kFirstPause.count() * 1.26);
        cr_expect_leq(backoff.pause(1).count() * 2, defaults::kFirstPause.count() * 1.26);
        cr_expect_geq(backoff.pause(1).count() * 2, defaults::kFirstPause.count() * 0.73);
        cr_expect_geq(backoff.pause(2).count(), defaults::kFirstPause.count() * 0.74);
        cr_expect_geq(backoff.pause(3).count(), defaults::kFirstPause.count() * 2 * 0.74);
    }
}

Test(backoff, a_sleep_ends_at_its_time_or_when_cancelled)
{
    Time start = now();
    cr_expect(sleep_until(start + Milliseconds(20), nullptr));
    cr_expect_geq((now() - start).count(), Milliseconds(20).count());
    int asked = 0;
    cr_expect(!sleep_until(now() + Milliseconds(60'000), [&] { return ++asked > 1; }));
    cr_expect_eq(asked, 2);
    cr_expect(!sleep_until(now(), [] { return true; }));
}
