// SPDX-License-Identifier: Apache-2.0
#include "worker/limits/estimates.h"

#include <criterion/criterion.h>

using namespace rgpu;
using share::kMicrosecond;
using share::kMillisecond;
using worker::Estimates;
using worker::Group;

static const int kernels[2] = {};

static void learn(Estimates &e, const void *work, int64_t count, int64_t took)
{
    e.learn({Group{work, count, e.of(work).each}}, took);
}

Test(estimates, what_was_never_seen_is_long_and_not_settled)
{
    Estimates e;
    cr_assert_eq(e.of(kernels).each, Estimates::kUnknown);
    cr_assert_not(e.of(kernels).reliable);
}

Test(estimates, one_that_was_short_once_is_believed_by_and_by)
{
    Estimates e;
    learn(e, kernels, 1, 20 * kMicrosecond);
    cr_assert_eq(e.of(kernels).each, Estimates::kLeastFirst);
    int groups = 0;
    for (; !e.of(kernels).reliable && groups < 50; groups++) {
        const int64_t before = e.of(kernels).each;
        learn(e, kernels, 10, 200 * kMicrosecond);
        cr_assert_lt(e.of(kernels).each, before);
    }
    cr_assert_lt(groups, 10, "%d groups", groups);
    cr_assert_lt(e.of(kernels).each, 40 * kMicrosecond);
}

Test(estimates, what_suddenly_takes_longer_is_settled_no_more)
{
    Estimates e;
    for (int i = 0; i < 30; i++) learn(e, kernels, 1, kMillisecond);
    cr_assert(e.of(kernels).reliable);
    learn(e, kernels, 1, 100 * kMillisecond);
    cr_assert_not(e.of(kernels).reliable);
    for (int i = 0; i < 30; i++) learn(e, kernels, 1, 100 * kMillisecond);
    cr_assert(e.of(kernels).reliable);
}

Test(estimates, kinds_of_one_group_share_what_it_took)
{
    Estimates e;
    for (int i = 0; i < 30; i++)
        learn(e, &kernels[0], 1, kMillisecond), learn(e, &kernels[1], 1, 3 * kMillisecond);
    e.learn({Group{&kernels[0], 1, e.of(&kernels[0]).each},
             Group{&kernels[1], 1, e.of(&kernels[1]).each}},
            8 * kMillisecond);
    cr_assert(e.of(&kernels[0]).each > 1400 * kMicrosecond &&
              e.of(&kernels[0]).each < 1600 * kMicrosecond);
    cr_assert(e.of(&kernels[1]).each > 4400 * kMicrosecond &&
              e.of(&kernels[1]).each < 4600 * kMicrosecond);
}
