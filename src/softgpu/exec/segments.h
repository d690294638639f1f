// SPDX-License-Identifier: Apache-2.0
// Runs a block whose kernel is cut into segments (abi.h): its warps take turns, each until all its
// lanes wait at barriers. Lanes that wait for the same meeting run on together; others of their
// warp run on alone, those that are behind first.
//
// Belongs to its block, and only the OS thread that runs the block touches it.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <vector>

#include "softgpu/abi.h"
#include "softgpu/exec/barrier_phase.h"
#include "softgpu/exec/grid.h"
#include "softgpu/exec/waiting.h"
#include "softgpu/exec/warp.h"

namespace rgpu::softgpu::exec {

class SegmentRun {
public:
    // Every thread of the block, from its beginning to its end, or until the grid is stopped.
    // False: no thread can go on.
    bool run(Grid &, BlockState &, rgpu_segments *, uint32_t frame_bytes);

    Waiting waiting() const;

    // Which threads run, as %tid.
    struct Running {
        Dim3 first, last;
    };
    // Nothing where no code runs.
    std::optional<Running> running() const;
    // After a fault, on a stack on which the grid's code may fault again: runs the lanes that have
    // not come to the end of their segment once more, one by one, so that the one at fault shows as
    // the only one running. Comes back where none does.
    void search();
    bool searching() const { return searching_; }
    // That a call was under way when the grid ended.
    void forget();

private:
    struct Lanes {
        WarpState *state;
        uint32_t x, y, z;         // %tid of the first lane
        uint32_t present, ended;  // lanes that the block has, and those of them that are done
        uint32_t ready;           // lanes whose meeting is over, or that have not begun
        uint32_t yielded;         // lanes that spin, and let others go first
        uint32_t spun;            // how often lanes have come to where they may, this turn
        bool together;            // no lane has ever been elsewhere than the others
        bool level;               // the last lanes that came anywhere were all, to one place
        uint32_t waiting[kBarriers];
        uint32_t meetings_open;
        Meeting meetings[kWarp];

        uint32_t alive() const { return present & ~ended; }
    };
    struct Free {
        void operator()(void *p) const { free(p); }
    };

    bool begin();
    void turn(Lanes &);
    uint32_t behind(const Lanes &) const;
    void run_lanes(Lanes &, uint32_t segment, uint32_t lanes);
    void call(Lanes &, uint32_t segment, uint32_t lane, uint32_t count, Dim3 tid);
    void arrived(Lanes &, uint32_t lanes);
    void meet(Lanes &, uint32_t lanes, WarpOp, uint32_t detail);
    void meet(Lanes &, uint32_t lanes, WarpOp, uint32_t detail, uint32_t mask);
    void finish(Lanes &, Meeting &);
    void come_to_barrier(Lanes &, uint32_t lanes, WarpOp, uint32_t id, uint32_t count);
    void open_barrier(uint32_t id);
    void end(Lanes &, uint32_t lanes);

    Grid *grid_ = nullptr;
    BlockState *block_ = nullptr;
    rgpu_segments *code_ = nullptr;
    uint32_t threads_ = 0, live_ = 0;
    // The call under way: its lanes' warp, or null.
    Lanes *at_ = nullptr;
    uint32_t segment_ = 0, lane_ = 0, count_ = 0;
    Dim3 tid_;
    bool searching_ = false;
    uint32_t barriers_in_use_ = 0;
    uint32_t reducing_ = 0;  // those of them that somebody came to for bar_red
    BarrierPhase barriers_[kBarriers];
    std::vector<Lanes> warps_;
    uint32_t frame_bytes_ = 0;
    size_t memory_bytes_ = 0;
    std::unique_ptr<void, Free> memory_;  // the warps' states and frames
};

}  // namespace rgpu::softgpu::exec
