// SPDX-License-Identifier: Apache-2.0
// The pauses between tries of what may succeed later: they double, up to a limit, with jitter.
#pragma once

#include <functional>
#include <random>

#include "util/clock.h"
#include "util/units.h"

namespace rgpu::pool {

// The n-th pause (0 is the first): doubles from defaults::kFirstPause to kLastPause; `random` in
// [0, 1) moves it by up to a quarter either way.
Milliseconds pause(int n, double random);

// Pauses with random numbers of its own. One thread at a time.
class Backoff {
public:
    // So many pauses before the doubling ones are fractions of the first: 1/2^short_pauses, ...,
    // 1/4, 1/2. For clients that ask together, which see each other's offers for some milliseconds.
    explicit Backoff(int short_pauses = 0) : short_pauses_(short_pauses) {}

    Milliseconds pause(int n);

private:
    int short_pauses_;
    std::mt19937 engine_{std::random_device{}()};
};

// Sleeps until `end`, asking at least every 50 ms whether it was cancelled (nothing: never).
// Returns false when it was.
bool sleep_until(Time end, const std::function<bool()> &cancelled);

}  // namespace rgpu::pool
