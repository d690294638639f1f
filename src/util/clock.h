// SPDX-License-Identifier: Apache-2.0
// The time by which offers and leases end: an interface, so that tests set it.
#pragma once

#include <chrono>

namespace rgpu {

// Never jumps, whatever happens to the wall clock.
using Time = std::chrono::time_point<std::chrono::steady_clock, std::chrono::milliseconds>;

inline constexpr Time kNever = Time::max();

inline Time now()
{
    return std::chrono::time_point_cast<std::chrono::milliseconds>(
        std::chrono::steady_clock::now());
}

}  // namespace rgpu
