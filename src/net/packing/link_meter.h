// SPDX-License-Identifier: Apache-2.0
// How fast a link brings bytes, as the end sees it that receives them.
//
// Only the time counts in which more of some large block is to come and nothing has: a sender or a
// receiver with other things to do between two blocks is no slow link. One fast stretch tells of a
// fast link, many slow ones in a row of a slow one, as a process may have to wait for its processor
// in any of them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace rgpu::net {

class LinkMeter {
public:
    using Clock = std::chrono::steady_clock;
    static constexpr size_t kStretch = 1 << 20, kLeastStretch = 128 << 10;  // bytes
    static constexpr std::chrono::milliseconds kLongStretch{
        100};                                      // that is measured with fewer bytes
    static constexpr unsigned kSlowStretches = 8;  // in a row

    // So many bytes of a large block have come; `waits`: there were no more, and more are to come.
    // Whether slow() or rate() say something else than before.
    bool got(size_t bytes, bool waits)
    {
        return (waits_ || waits) && got(bytes, waits, Clock::now());
    }
    bool got(size_t bytes, bool waits, Clock::time_point now);

    // Bytes a second of a slow link; 0: it is none, or not known yet.
    uint64_t rate() const { return rate_; }

private:
    bool end_stretch();

    bool waits_ = false;
    Clock::time_point since_{};
    size_t bytes_ = 0;  // of this stretch
    std::chrono::nanoseconds time_{0};
    unsigned slow_ = 0;  // stretches in a row
    size_t slow_bytes_ = 0;
    std::chrono::nanoseconds slow_time_{0};
    uint64_t rate_ = 0;
};

}  // namespace rgpu::net
