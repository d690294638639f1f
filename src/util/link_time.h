// SPDX-License-Identifier: Apache-2.0
// Time as a sum of what no link changes and of what one takes: round trips, and bytes each way.
// What a program's time over one link is made of bounds its time over every other one from below
// (interpose/base/forecast.h measures; rgpu predict reads).
#pragma once

#include <algorithm>

namespace rgpu {

// A link by what it takes: seconds for a round trip, and for a byte each way.
struct LinkPace {
    double round_trip = 0, up = 0, down = 0;
};

// A GPU in the program's own machine: a driver call that waits, and PCIe 4.0 x16.
inline constexpr LinkPace kLocalPace{8e-6, 1 / 25e9, 1 / 25e9};

struct LinkTime {
    double fixed = 0;         // seconds
    double trips = 0;         // round trips, and halves of them
    double up = 0, down = 0;  // bytes to the server, and from it

    double for_trips(const LinkPace &pace) const { return trips * pace.round_trip; }
    double for_bytes(const LinkPace &pace) const { return up * pace.up + down * pace.down; }
    double over(const LinkPace &pace) const { return fixed + for_trips(pace) + for_bytes(pace); }

    LinkTime &operator+=(const LinkTime &o)
    {
        fixed += o.fixed, trips += o.trips, up += o.up, down += o.down;
        return *this;
    }
};

// The one of these that takes longest over that link. There is at least one.
template <class Times> const LinkTime &longest(const Times &times, const LinkPace &pace)
{
    return *std::max_element(times.begin(), times.end(), [&](const auto &a, const auto &b) {
        return a.over(pace) < b.over(pace);
    });
}

}  // namespace rgpu
