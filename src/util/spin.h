// SPDX-License-Identifier: Apache-2.0
// Waiting for input by looking again and again for a moment before sleeping: waking up costs more
// than a short answer takes. Where that does not pay, because the answers take longer or the
// process has one processor, it is not done.
#pragma once

#include <sched.h>

#include <chrono>
#include <cstdint>

namespace rgpu {

// One for each place that waits; used by one thread at a time.
class Spin {
public:
    static constexpr auto kMoment = std::chrono::microseconds(50);

    // `pause`: so many waits without a look at first. `moment`: how long to look. `rest` is waited
    // between two looks, where each may hinder whoever brings what is looked for.
    explicit Spin(unsigned pause = 0, std::chrono::nanoseconds moment = kMoment,
                  std::chrono::nanoseconds rest = {})
        : moment_(moment), rest_(rest), pause_(pause)
    {}

    // Calls `look` until it returns true or the moment is over; whether it did.
    template <class Look> bool until(Look &&look)
    {
        if (!several_processors() || (pause_ && pause_--)) return false;
        using Clock = std::chrono::steady_clock;
        auto now = Clock::now();
        const auto end = now + moment_;
        do {
            if (look()) {
                failed_ = 0;
                return true;
            }
            for (const auto again = (now = Clock::now()) + rest_; now < again;) now = Clock::now();
        } while (now < end);
        if (++failed_ >= kPatience) failed_ = 0, pause_ = kPause;
        return false;
    }

private:
    static constexpr unsigned kPatience = 4;  // moments in vain before a pause
    static constexpr unsigned kPause = 64;    // waits without a look

    static bool several_processors()
    {
        static const bool several = [] {
            cpu_set_t set;
            // A pinned process leaves the other processors to its peer: what counts is the
            // machine's.
            return sched_getaffinity(1, sizeof set, &set) != 0 || CPU_COUNT(&set) > 1;
        }();
        return several;
    }

    std::chrono::nanoseconds moment_, rest_;
    unsigned failed_ = 0, pause_;
};

}  // namespace rgpu
