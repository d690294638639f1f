// A warp's meetings: lanes that wait for each other at a .sync operation, and lanes that wait to
// converge (activemask).
//
// A .sync operation is met by (operation, mask), not by place: PTX asks for "the same qualifiers
// and the same mask", so that lanes in both ways of a branch may meet. activemask is met by place.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "softgpu/exec/block.h"

namespace rgpu::softgpu::exec {

enum class WarpOp : uint32_t { sync, shfl, vote, match_any, match_all, redux, elect, gather };

struct Meeting {
    WarpOp op;
    uint32_t detail;   // Shfl, Vote, Redux; bytes of gather
    uint32_t mask;     // who must come
    uint32_t arrived;  // who has
};

// Where a lane is: the sites of the calls that it is in, outermost first, then its own. Sites are
// numbered in the order of the text, so that places compare as the text does.
struct Place {
    static constexpr uint32_t kDepth = 16;  // calls further inside are not told apart
    uint32_t depth = 0;
    std::array<uint32_t, kDepth> sites{};

    void enter(uint32_t site)
    {
        if (depth < kDepth - 1) sites[depth] = site;
        ++depth;
    }
    void leave() { set(--depth, 0); }
    void at(uint32_t site) { set(depth, site); }

private:
    void set(uint32_t i, uint32_t site) { sites[std::min(i, kDepth - 1)] = site; }
};

struct Warp {
    Block *block = nullptr;
    Fiber *lanes = nullptr;
    uint32_t present = 0;     // lanes that the block has
    uint32_t ended = 0;
    uint32_t active = 0;      // how many lanes can run, or could if it were their turn
    uint32_t converging = 0;  // lanes that wait in activemask
    uint32_t yields = 0;      // of active lanes while others wait to converge
    uint32_t bypassed = 0;    // groups let go while others wait to converge
    uint32_t meetings_open = 0;
    Meeting meetings[kWarp];
    // What each lane has brought, and what it takes away.
    uint64_t value[kWarp];
    uint32_t b[kWarp], c[kWarp];
    Place place[kWarp];
    bool placed = false;  // something in place[] is not as it was made
    uint32_t result[kWarp], flag[kWarp];
    const void *mine[kWarp];
    void *all[kWarp];

    void begin(Block &, Fiber *first, uint32_t lanes_present);

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
void compute(Warp &, const Meeting &);

}  // namespace rgpu::softgpu::exec
