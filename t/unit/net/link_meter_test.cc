// SPDX-License-Identifier: Apache-2.0
// A link is slow when many stretches in a row were, fast when one was; only waiting counts.
#include "net/packing/link_meter.h"

#include <criterion/criterion.h>

using namespace rgpu::net;
using namespace std::chrono_literals;

namespace {

struct Meter {
    LinkMeter meter;
    LinkMeter::Clock::time_point now{};

    // A large block, in pieces of 64 KiB at that rate; whether it was told something.
    bool block(size_t bytes, double per_second)
    {
        constexpr size_t kPiece = 64 << 10;
        bool told = false;
        for (size_t came = 0; came < bytes; came += kPiece) {
            now += std::chrono::nanoseconds(static_cast<int64_t>(kPiece * 1e9 / per_second));
            told |= meter.got(kPiece, came + kPiece < bytes, now);
        }
        return told;
    }
    // As many as it takes, at most `most` megabytes.
    size_t until_told(double per_second, size_t most)
    {
        size_t n = 0;
        while (n++ < most)
            if (block(1 << 20, per_second)) return n;
        return 0;
    }
};

}  // namespace

Test(link_meter, many_slow_stretches_make_a_slow_link)
{
    Meter m;
    const size_t megabytes = m.until_told(50e6, 100);
    cr_expect(megabytes >= LinkMeter::kSlowStretches && megabytes <= LinkMeter::kSlowStretches + 2,
              "%zu", megabytes);
    cr_expect(m.meter.rate() > 45'000'000 && m.meter.rate() < 55'000'000, "%zu",
              static_cast<size_t>(m.meter.rate()));
    cr_expect_eq(m.until_told(60e6, 100), 0, "nothing new");
    cr_expect(m.until_told(200e6, 100) && m.meter.rate() > 180'000'000, "faster, and slow");
    cr_expect(m.until_told(2e9, 3) && !m.meter.rate(), "fast");
}

Test(link_meter, one_fast_stretch_in_eight_is_a_fast_link)
{
    Meter m;
    for (int i = 0; i < 1000; i++) cr_assert(!m.block(1 << 20, i % 7 < 2 ? 1e9 : 50e6));
    cr_expect_eq(m.meter.rate(), 0);
}

Test(link_meter, pauses_between_blocks_do_not_count)
{
    Meter m;
    for (int i = 0; i < 100; i++, m.now += 10s) cr_assert(!m.block(1 << 20, 1e9));
    // Nor does what was there at once.
    for (int i = 0; i < 100; i++, m.now += 10s) cr_assert(!m.meter.got(1 << 20, false, m.now));
    cr_expect_eq(m.meter.rate(), 0);
}

Test(link_meter, a_very_slow_link_is_known_with_fewer_bytes)
{
    Meter m;
    bool told = false;
    size_t blocks = 0;
    while (!told && blocks < 100) told = m.block(256 << 10, 1e6), blocks++;
    cr_expect(told && blocks <= 10, "%zu", blocks);
    cr_expect(m.meter.rate() > 900'000 && m.meter.rate() < 1'100'000, "%zu",
              static_cast<size_t>(m.meter.rate()));
}
