// SPDX-License-Identifier: Apache-2.0
// Who has come to a named barrier since it opened last. Both ways to run a block's threads count
// with it: as fibers (barrier.cc), and warp by warp (segments.cc).
//
// A barrier with a count is counted in whole warps, as PTX says: with the first lane of a warp
// come those that the warp lacks or that have ended. Threads that have ended are not waited for.
#pragma once

#include <bit>
#include <cstdint>

#include "softgpu/abi.h"
#include "softgpu/exec/limits.h"

namespace rgpu::softgpu::exec {

class BarrierPhase {
public:
    // The first threads come. `count`: of the barrier; 0, or all of the block's threads: as many as
    // have not ended.
    void begin(uint32_t count, uint32_t threads)
    {
        *this = {};
        expected_ = count >= threads ? 0 : count;
    }
    // Lanes of a warp, of which `alive` have not ended, come. `waits`: they are not let go before
    // the phase ends.
    void arrive(uint32_t warp, uint32_t lanes, uint32_t alive, bool waits)
    {
        arrived_ += static_cast<uint32_t>(std::popcount(lanes));
        const uint32_t bit = uint32_t{1} << warp;
        if (!(warps_ & bit) && expected_) arrived_ += static_cast<uint32_t>(std::popcount(~alive));
        warps_ |= bit;
        if (waits) return;
        if (!(passed_warps_ & bit)) passed_[warp] = 0;
        passed_warps_ |= bit;
        passed_[warp] |= lanes;
    }
    void vote(uint32_t people, uint32_t trues) { people_ += people, trues_ += trues; }
    void thread_ended(uint32_t warp, uint32_t lane_bit)
    {
        if ((passed_warps_ >> warp & 1) && (passed_[warp] & lane_bit))
            ++gone_;
        else if (expected_ && (warps_ >> warp & 1))
            ++arrived_;
    }

    // `live`: threads of the block that have not ended.
    bool complete(uint32_t live) const
    {
        return arrived_ && arrived_ >= (expected_ ? expected_ : live + gone_);
    }
    uint32_t reduced(BarRed op) const
    {
        switch (op) {
        case BarRed::popc: return trues_;
        case BarRed::and_: return trues_ == people_;
        case BarRed::or_: return trues_ != 0;
        }
        return 0;
    }
    uint32_t expected() const { return expected_; }

private:
    uint32_t expected_ = 0;      // 0: all threads that have not ended
    uint32_t arrived_ = 0;       // threads, and lanes counted with their warp
    uint32_t people_ = 0;        // threads that brought a predicate
    uint32_t trues_ = 0;         // how many of them said yes
    uint32_t gone_ = 0;          // threads that arrived without waiting and have ended since
    uint32_t warps_ = 0;         // warps that have come
    uint32_t passed_warps_ = 0;  // warps of which lanes arrived without waiting
    uint32_t passed_[kMaxBlockThreads / kWarp];  // those lanes; valid where passed_warps_ says
};

}  // namespace rgpu::softgpu::exec
