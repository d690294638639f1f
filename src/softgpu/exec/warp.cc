// SPDX-License-Identifier: Apache-2.0
// Where lanes of a warp wait for each other.
#include "softgpu/exec/warp.h"

#include <bit>

namespace rgpu::softgpu::exec {

void Warp::begin(Threads &b, Fiber *first, uint32_t lanes_present)
{
    block = &b;
    lanes = first;
    present = lanes_present;
    ended = converging = yields = bypassed = meetings_open = 0;
    active = static_cast<uint32_t>(std::popcount(lanes_present));
    if (positioned) std::fill(std::begin(position), std::end(position), CodePosition{});
    positioned = false;
}

// Makes them ready, in the order of lanes and before any other thread of the block, so that a warp
// keeps together and its stacks stay in the cache.
void Warp::release(uint32_t who, Fiber *current)
{
    if (current) who &= ~current->bit();
    FiberList list;
    for (uint32_t rest = who; rest; rest &= rest - 1) {
        Fiber &f = lanes[std::countr_zero(rest)];
        f.wait = Wait::none;
        list.push_back(f);
    }
    active += static_cast<uint32_t>(std::popcount(who));
    block->make_ready_first(list);
}

void Warp::finish(Meeting &m, Fiber *current)
{
    exec::compute(*this, m);
    uint32_t who = m.arrived;
    m = meetings[--meetings_open];
    release(who, current);
}

void Warp::meet(Fiber &f, WarpOp op, uint32_t detail, uint32_t mask)
{
    // A caller outside its own mask is undefined behaviour in CUDA; it must at least not hang.
    mask |= f.bit();
    Meeting *m = meetings, *end = meetings + meetings_open;
    while (m != end && !(m->op == op && m->detail == detail && m->mask == mask)) ++m;
    if (m == end) {
        *m = {op, detail, mask, 0};
        ++meetings_open;
    }
    m->arrived |= f.bit();
    if (!(mask & present & ~ended & ~m->arrived)) {
        finish(*m, &f);
        block->phase_ended();
        return;
    }
    f.wait = Wait::meeting;
    lane_blocked();
    block->suspend(f);
}

// Lanes whose place comes first are behind, and go first: that is how structured code
// comes together again. `current`, if any, runs and is not made ready.
void Warp::release_convergence(Fiber *current, bool everyone)
{
    yields = 0;
    if (++bypassed > kMaxBypass) everyone = true;
    do {
        const CodePosition *first = nullptr;
        uint32_t group = 0;
        for (uint32_t rest = converging; rest; rest &= rest - 1) {
            auto lane = static_cast<uint32_t>(std::countr_zero(rest));
            if (first && position[lane] > *first) continue;
            if (!first || position[lane] < *first) group = 0;
            first = &position[lane];
            group |= uint32_t{1} << lane;
        }
        for (uint32_t rest = group; rest; rest &= rest - 1) result[std::countr_zero(rest)] = group;
        converging &= ~group;
        release(group, current);
    } while (everyone && converging);
    if (!converging) bypassed = 0;
}

uint32_t Warp::converge(Fiber &f, uint32_t at)
{
    uint32_t lane = f.thread.lane;
    positioned = true;
    position[lane].at(at);
    converging |= f.bit();
    --active;
    if (!active) {
        // Nobody else can run: somebody is let go, perhaps this very lane.
        release_convergence(&f, false);
        if (!(converging & f.bit())) {
            ++active;
            block->phase_ended();
            position[lane].at(0);
            return result[lane];
        }
    }
    f.wait = Wait::convergence;
    block->suspend(f);
    position[lane].at(0);
    return result[lane];
}

void Warp::lane_blocked()
{
    --active;
    if (!active && converging) release_convergence(nullptr, false);
}

void Warp::lane_ended(Fiber &f)
{
    ended |= f.bit();
    for (uint32_t i = 0; i < meetings_open;) {
        Meeting &m = meetings[i];
        if (m.mask & present & ~ended & ~m.arrived)
            ++i;
        else
            finish(m, nullptr);
    }
    lane_blocked();
}

void Warp::lane_yielded()
{
    if (converging && ++yields > kPatience) release_convergence(nullptr, true);
}

}  // namespace rgpu::softgpu::exec
