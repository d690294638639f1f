// SPDX-License-Identifier: Apache-2.0
// A rate limit: so many at once, and then so many a second.
#pragma once

#include <algorithm>

#include "util/clock.h"

namespace rgpu {

// One thread at a time.
class TokenBucket {
public:
    TokenBucket(int per_second, int at_once)
        : interval_(std::max<int64_t>(1, 1000 / per_second)), ahead_(interval_ * (at_once - 1))
    {}

    // Takes one, which is there from the time that is returned on: `now` or later.
    Time take(Time now)
    {
        next_ = std::max(next_, now - ahead_);
        const Time due = std::max(next_, now);
        next_ += interval_;
        return due;
    }
    // When the next one is there.
    Time due(Time now) const { return std::max(next_, now); }
    // As if none had been taken.
    bool full(Time now) const { return next_ <= now - ahead_; }

private:
    std::chrono::milliseconds interval_, ahead_;
    Time next_{};
};

}  // namespace rgpu
