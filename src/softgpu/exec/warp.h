// SPDX-License-Identifier: Apache-2.0
// A warp's meetings: lanes that wait for each other at a .sync operation, and lanes that wait to
// converge (activemask).
//
// A .sync operation is met by (operation, mask), not by place: PTX asks for "the same qualifiers
// and the same mask", so that lanes in both ways of a branch may meet. activemask is met by place.
//
// A warp belongs to its block, and only the OS thread that runs the block touches it.
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>

#include "softgpu/abi.h"
#include "softgpu/exec/limits.h"
#include "softgpu/exec/threads.h"

namespace rgpu::softgpu::exec {

struct Meeting {
    WarpOp op;
    uint32_t detail;   // Shfl, Vote, Redux, matrix_detail()
    uint32_t mask;     // who must come
    uint32_t arrived;  // who has
};

// Where a lane is, as numbers that compare as the order in which lanes that run together come by:
// for each call that it is in, outermost first, the loops around it and its site; then the loops
// that it is in now, and its own site. A loop is its header's site and how often the lane has come
// back there. Sites are numbered in the order of the text.
class CodePosition {
public:
    void enter(uint32_t site)
    {
        if (frames_ < kFrames) {
            at(site);
            outer_[frames_] = frame_;
            frame_ = ++depth_;
        }
        ++frames_;
    }
    void leave()
    {
        if (--frames_ >= kFrames) return;
        cut(frame_ - 1);
        frame_ = outer_[frames_];
    }
    // The lane comes to the header of a loop, `nest` loops of the function around it: from outside,
    // or again.
    void loop(uint32_t nest, uint32_t site)
    {
        const uint32_t here = frame_ + 2 * nest;
        const bool again = depth_ >= here + 2 && number(here) == site;
        cut(again ? here + 2 : here);
        if (!again) {
            set(here, site);
            depth_ = here + 2;
        } else if (here + 1 < kDepth) {
            ++numbers_[here + 1];
        }
    }
    // It is in so many loops of the function, and no more.
    void unloop(uint32_t nest)
    {
        if (depth_ > frame_ + 2 * nest) cut(frame_ + 2 * nest);
    }
    void at(uint32_t site) { set(depth_, site); }

    auto operator<=>(const CodePosition &other) const { return numbers_ <=> other.numbers_; }
    bool operator==(const CodePosition &other) const { return numbers_ == other.numbers_; }

private:
    static constexpr uint32_t kDepth = 48,
                              kFrames = 16;  // what is further inside is not told apart

    uint32_t number(uint32_t i) const { return i < kDepth ? numbers_[i] : 0; }
    void set(uint32_t i, uint32_t value)
    {
        if (i < kDepth) numbers_[i] = value;
    }
    void cut(uint32_t depth)
    {
        for (uint32_t i = depth; i <= depth_ && i < kDepth; ++i) numbers_[i] = 0;
        depth_ = depth;
    }

    uint32_t depth_ = 0;   // where its own site stands
    uint32_t frame_ = 0;   // where the function's loops begin
    uint32_t frames_ = 0;  // calls that it is in
    std::array<uint32_t, kFrames> outer_{};
    std::array<uint32_t, kDepth> numbers_{};
};

struct Warp : LaneValues {
    Threads *block = nullptr;  // the threads of its block
    Fiber *lanes = nullptr;
    uint32_t present = 0;  // lanes that the block has
    uint32_t ended = 0;
    uint32_t active = 0;      // how many lanes can run, or could if it were their turn
    uint32_t converging = 0;  // lanes that wait in activemask
    uint32_t yields = 0;      // of active lanes while others wait to converge
    uint32_t bypassed = 0;    // groups let go while others wait to converge
    uint32_t meetings_open = 0;
    Meeting meetings[kWarp];
    CodePosition position[kWarp];
    bool positioned = false;  // something in position[] is not as it was made

    void begin(Threads &, Fiber *first, uint32_t lanes_present);

    // The fiber comes to the operation and returns when all have, with result and flag set.
    void meet(Fiber &, WarpOp, uint32_t detail, uint32_t mask);
    // Returns the lanes that are together here.
    uint32_t converge(Fiber &, uint32_t site);

    // A lane has ended: whom that lets go on, becomes ready.
    void lane_ended(Fiber &);
    // An active lane waits now (at a barrier), or can run again.
    void lane_blocked();
    void lanes_unblocked(uint32_t count) { active += count; }
    // An active lane spins.
    void lane_yielded();

private:
    void finish(Meeting &, Fiber *current);
    void release_convergence(Fiber *current, bool everyone);
    void release(uint32_t lanes, Fiber *current);
};

// Computes what the lanes of a complete meeting take away.
void compute(LaneValues &, const Meeting &);
// The same of WarpOp::matrix. matrix.cc
void compute_matrix(const LaneValues &, uint32_t detail, uint32_t arrived);

}  // namespace rgpu::softgpu::exec
