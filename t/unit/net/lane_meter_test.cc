// SPDX-License-Identifier: Apache-2.0
// Lanes are chosen where they are faster, and left where they no longer are.
#include "net/transport/lane_meter.h"

#include <criterion/criterion.h>

using namespace rgpu::net;
using namespace std::chrono_literals;

namespace {

// Sends so many bytes in blocks of a MiB over a link with these rates (bytes a nanosecond); how
// many of them went over lanes.
double over_lanes(LaneMeter &meter, uint64_t bytes, double one, double lanes)
{
    constexpr size_t kBlock = 1 << 20;
    uint64_t there = 0;
    for (uint64_t at = 0; at < bytes; at += kBlock) {
        const double rate = meter.lanes() ? lanes : one;
        if (meter.lanes()) there += kBlock;
        meter.sent(kBlock, std::chrono::nanoseconds(static_cast<int64_t>(kBlock / rate)));
    }
    return static_cast<double>(there) / static_cast<double>(bytes);
}

}  // namespace

Test(lane_meter, begins_with_one)
{
    LaneMeter meter;
    cr_expect_not(meter.lanes());
    cr_expect_eq(over_lanes(meter, LaneMeter::kSettle + LaneMeter::kMeasured, 1, 4), 0);
    cr_expect(meter.lanes(), "then they are tried");
}

Test(lane_meter, faster_lanes_stay)
{
    LaneMeter meter;
    over_lanes(meter, 64 << 20, 0.025, 0.1);
    cr_expect(meter.lanes());
    cr_expect_gt(over_lanes(meter, 8ull << 30, 0.025, 0.1), 0.97);
}

Test(lane_meter, no_faster_lanes_are_left)
{
    for (const double lanes : {0.4, 1.0, 1.1}) {
        LaneMeter meter;
        over_lanes(meter, 64 << 20, 1, lanes);
        cr_expect_not(meter.lanes());
        cr_expect_lt(over_lanes(meter, 8ull << 30, 1, lanes), 0.03);
    }
}

Test(lane_meter, a_link_changes)
{
    LaneMeter meter;
    over_lanes(meter, 2ull << 30, 1, 0.9);
    cr_expect_not(meter.lanes());
    over_lanes(meter, 2ull << 30, 1, 3);
    cr_expect(meter.lanes());
    over_lanes(meter, 2ull << 30, 1, 0.9);
    cr_expect_not(meter.lanes());
}

// What the buffers took at once says nothing.
Test(lane_meter, full_buffers_first)
{
    LaneMeter meter;
    meter.sent(LaneMeter::kSettle, 1ns);
    over_lanes(meter, LaneMeter::kMeasured, 1, 1);
    cr_assert(meter.lanes());
    meter.sent(LaneMeter::kSettle, 1ns);
    over_lanes(meter, LaneMeter::kMeasured, 1, 1);
    cr_expect_not(meter.lanes());
}
