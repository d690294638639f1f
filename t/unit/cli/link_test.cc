// SPDX-License-Identifier: Apache-2.0
// What follows from a link's figures.
#include "cli/parts/link.h"

#include <criterion/criterion.h>

using namespace rgpu::cli;

static Link link_of(double wait_us, double post_us, double GBps)
{
    Link link;
    link.call.p50 = wait_us;
    link.post = post_us;
    link.bandwidth = {{4096, GBps / 10, GBps / 10}, {64 << 20, GBps, GBps}};
    return link;
}

Test(link, latency_is_told_by_rank)
{
    std::vector<double> us;
    for (int i = 100; i >= 1; --i) us.push_back(i);
    Latency l = latency_of(us);
    cr_expect_eq(l.p50, 51);
    cr_expect_eq(l.p90, 91);
    cr_expect_eq(l.p99, 100);
    cr_expect_eq(l.most, 100);
    cr_expect_eq(latency_of({7}).p99, 7);
    cr_expect_eq(latency_of({}).p50, 0);
}

Test(link, as_good_as_a_local_gpu_costs_nothing)
{
    for (const Profile &p : kProfiles)
        cr_expect_float_eq(slow_down(p, link_of(8, 2, 25)), 1, 1e-9, "%s", p.what);
    cr_expect(verdict(link_of(8, 2, 25)).starts_with("Excellent"));
}

Test(link, waits_copies_and_posts_each_cost_what_they_take)
{
    // 10 ms of kernels; local: 10 waits of 8 us, 100 MB at 25 GB/s are 4 ms.
    const Profile waits = {"", 10, 10, 0, 0, 0}, copies = {"", 10, 0, 0, 50, 50},
                  posts = {"", 1, 0, 10'000, 0, 0};
    cr_expect_float_eq(slow_down(waits, link_of(1008, 2, 25)), 20.08 / 10.08, 1e-9);
    cr_expect_float_eq(slow_down(copies, link_of(8, 2, 10)), 20.0 / 14.0, 1e-9);
    // Posting hides behind kernels until it takes longer than they do.
    cr_expect_float_eq(slow_down(posts, link_of(8, 4, 25)), 2, 1e-9);
    cr_expect_eq(slow_down(posts, link_of(8, 0.1, 25)), 1,
                 "cheaper than local is not faster than the kernels");
}

Test(link, the_verdict_follows_the_programs)
{
    cr_expect(verdict(link_of(40, 0.2, 10)).starts_with("Good for "), "%s",
              verdict(link_of(40, 0.2, 10)).c_str());
    cr_expect(verdict(link_of(30'000, 0.2, 0.01)).starts_with("Poor"), "%s",
              verdict(link_of(30'000, 0.2, 0.01)).c_str());
}

Test(link, packing_pays_where_either_way_is_slow)
{
    cr_expect(!packing_pays(link_of(40, 0.2, 1.1)));
    cr_expect(packing_pays(link_of(40, 0.2, 0.11)));
    Link uneven = link_of(40, 0.2, 1.1);
    uneven.bandwidth.back().from_gpu = uneven.bandwidth.front().from_gpu = 0.01;
    cr_expect(packing_pays(uneven));
}
