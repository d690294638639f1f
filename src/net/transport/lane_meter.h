// SPDX-License-Identifier: Apache-2.0
// Whether lanes carry large blocks faster than one connection does, as the side sees it that sends.
//
// What was sent while the kernel's buffers still had what went the other way does not count. The
// two are tried one after the other, and again each kKeep, as links change; lanes must be faster by
// kGain, since they cost both sides more.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace rgpu::net {

class LaneMeter {
public:
    static constexpr uint64_t kSettle = 8 << 20, kMeasured = 8 << 20, kKeep = 1 << 30;  // bytes
    static constexpr double kGain = 1.15;

    // Where the next block goes.
    bool lanes() const { return lanes_; }

    // That a block has gone there; `time` from its first byte on until the kernel had the last.
    void sent(size_t bytes, std::chrono::nanoseconds time)
    {
        seen_ += bytes;
        if (seen_ <= kSettle) return;
        bytes_ += static_cast<double>(bytes), time_ += static_cast<double>(time.count());
        if (bytes_ >= static_cast<double>(kMeasured)) measured();
    }

private:
    void measured()
    {
        const bool tried = lanes_ != chosen_;
        pace_[lanes_] = time_ / bytes_;
        bytes_ = time_ = 0;
        if (tried)
            use(chosen_ = pace_[1] * kGain < pace_[0], kKeep);
        else if (seen_ >= keep_)
            use(!chosen_, 0);
    }
    void use(bool lanes, uint64_t keep) { lanes_ = lanes, keep_ = keep, seen_ = 0; }

    bool chosen_ = false, lanes_ = false;  // else one connection
    uint64_t seen_ = 0,
             keep_ = 0;            // bytes since it goes this way, and until the other one is tried
    double bytes_ = 0, time_ = 0;  // that are being measured
    double pace_[2] = {};          // nanoseconds a byte: of one, of lanes
};

}  // namespace rgpu::net
