// SPDX-License-Identifier: Apache-2.0
#include "net/packing/link_meter.h"

#include <algorithm>

#include "util/defaults.h"

namespace rgpu::net {

namespace {

uint64_t per_second(size_t bytes, std::chrono::nanoseconds time)
{
    return static_cast<uint64_t>(static_cast<double>(bytes) * 1e9 /
                                 static_cast<double>(std::max<int64_t>(time.count(), 1)));
}

}  // namespace

bool LinkMeter::got(size_t bytes, bool waits, Clock::time_point now)
{
    if (waits_) bytes_ += bytes, time_ += now - since_;
    waits_ = waits;
    since_ = now;
    return bytes_ >= kStretch || (bytes_ >= kLeastStretch && time_ >= kLongStretch) ? end_stretch()
                                                                                    : false;
}

bool LinkMeter::end_stretch()
{
    const size_t bytes = bytes_;
    const auto time = time_;
    bytes_ = 0, time_ = {};
    const uint64_t before = rate_;
    if (per_second(bytes, time) >= defaults::kSlowLink) {
        slow_ = 0, slow_bytes_ = 0, slow_time_ = {};
        rate_ = 0;
        return before;
    }
    slow_bytes_ += bytes, slow_time_ += time;
    if (++slow_ < kSlowStretches) return false;
    const uint64_t rate = std::max<uint64_t>(per_second(slow_bytes_, slow_time_), 1);
    slow_ = 0, slow_bytes_ = 0, slow_time_ = {};
    // What changes little is not told again and again.
    if (before && rate < before * 2 && before < rate * 2) return false;
    rate_ = rate;
    return true;
}

}  // namespace rgpu::net
