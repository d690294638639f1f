// SPDX-License-Identifier: Apache-2.0
// The warp operations: what lanes that have met take away. PTX ISA 9.7.13 defines each.
#include <bit>

#include "softgpu/exec/lanes.h"
#include "softgpu/exec/warp.h"

namespace rgpu::softgpu::exec {

namespace {

template <class F> void each(uint32_t lanes, F &&f)
{
    for (; lanes; lanes &= lanes - 1) f(static_cast<uint32_t>(std::countr_zero(lanes)));
}

// `Same`: all lanes come, with the same b and c.
template <Shfl mode, bool same> void shuffle(LaneValues &w, uint32_t arrived)
{
    for (uint32_t lane = 0; lane < kWarp; ++lane) {
        const uint32_t b = w.b[same ? 0 : lane] & 31, c = w.c[same ? 0 : lane], clamp = c & 31,
                       segment = c >> 8 & 31, last = (lane & segment) | (clamp & ~segment);
        const uint32_t from = mode == Shfl::up     ? lane - b
                              : mode == Shfl::down ? lane + b
                              : mode == Shfl::bfly ? lane ^ b
                                                   : (lane & segment) | (b & ~segment);
        const bool valid = mode == Shfl::up
                               ? static_cast<int32_t>(from) >= static_cast<int32_t>(last)
                               : from <= last;
        // A source that takes no part gives an undefined value in CUDA: the lane's own here.
        const bool has = valid && (same || arrived >> (from & 31) & 1);
        const auto value = static_cast<uint32_t>(w.value[has ? from : lane]);
        if (!same && !(arrived >> lane & 1)) continue;
        w.result[lane] = value;
        w.flag[lane] = valid;
    }
}

template <bool same> void shuffle(LaneValues &w, Shfl mode, uint32_t arrived)
{
    switch (mode) {
    case Shfl::up: return shuffle<Shfl::up, same>(w, arrived);
    case Shfl::down: return shuffle<Shfl::down, same>(w, arrived);
    case Shfl::bfly: return shuffle<Shfl::bfly, same>(w, arrived);
    case Shfl::idx: return shuffle<Shfl::idx, same>(w, arrived);
    }
}

void shuffle(LaneValues &w, Shfl mode, uint32_t arrived)
{
    if (arrived == ~0u && all_same(w.b) && all_same(w.c)) return shuffle<true>(w, mode, arrived);
    shuffle<false>(w, mode, arrived);
}

void vote(LaneValues &w, Vote op, uint32_t arrived)
{
    uint32_t yes = 0, result = 0;
    each(arrived, [&](uint32_t lane) { yes |= uint32_t{w.value[lane] != 0} << lane; });
    switch (op) {
    case Vote::all: result = yes == arrived; break;
    case Vote::any: result = yes != 0; break;
    case Vote::uni: result = yes == arrived || yes == 0; break;
    case Vote::ballot: result = yes; break;
    }
    each(arrived, [&](uint32_t lane) { w.result[lane] = result; });
}

void match_any(LaneValues &w, uint32_t arrived)
{
    for (uint32_t rest = arrived; rest;) {
        uint64_t value = w.value[std::countr_zero(rest)];
        uint32_t same = 0;
        each(rest, [&](uint32_t lane) { same |= uint32_t{w.value[lane] == value} << lane; });
        each(same, [&](uint32_t lane) { w.result[lane] = same; });
        rest &= ~same;
    }
}

void match_all(LaneValues &w, uint32_t arrived)
{
    uint64_t value = w.value[std::countr_zero(arrived)];
    bool same = true;
    each(arrived, [&](uint32_t lane) { same &= w.value[lane] == value; });
    each(arrived, [&](uint32_t lane) {
        w.result[lane] = same ? arrived : 0;
        w.flag[lane] = same;
    });
}

uint32_t combine(Redux op, uint32_t a, uint32_t b)
{
    auto sa = static_cast<int32_t>(a), sb = static_cast<int32_t>(b);
    switch (op) {
    case Redux::add: return a + b;
    case Redux::min_s: return sa < sb ? a : b;
    case Redux::max_s: return sa > sb ? a : b;
    case Redux::min_u: return a < b ? a : b;
    case Redux::max_u: return a > b ? a : b;
    case Redux::and_: return a & b;
    case Redux::or_: return a | b;
    case Redux::xor_: return a ^ b;
    }
    return 0;
}

void reduce(LaneValues &w, Redux op, uint32_t arrived)
{
    auto total = static_cast<uint32_t>(w.value[std::countr_zero(arrived)]);
    each(arrived & (arrived - 1),
         [&](uint32_t lane) { total = combine(op, total, static_cast<uint32_t>(w.value[lane])); });
    each(arrived, [&](uint32_t lane) { w.result[lane] = total; });
}

void elect(LaneValues &w, uint32_t arrived)
{
    auto leader = static_cast<uint32_t>(std::countr_zero(arrived));
    each(arrived, [&](uint32_t lane) {
        w.result[lane] = leader;
        w.flag[lane] = lane == leader;
    });
}

}  // namespace

void compute(LaneValues &w, const Meeting &m)
{
    switch (m.op) {
    case WarpOp::shfl: return shuffle(w, static_cast<Shfl>(m.detail), m.arrived);
    case WarpOp::vote: return vote(w, static_cast<Vote>(m.detail), m.arrived);
    case WarpOp::match_any: return match_any(w, m.arrived);
    case WarpOp::match_all: return match_all(w, m.arrived);
    case WarpOp::redux: return reduce(w, static_cast<Redux>(m.detail), m.arrived);
    case WarpOp::elect: return elect(w, m.arrived);
    case WarpOp::matrix: return compute_matrix(w, m.detail, m.arrived);
    default: break;
    }
}

}  // namespace rgpu::softgpu::exec

using namespace rgpu::softgpu;
using namespace rgpu::softgpu::exec;

namespace {

// Brings a value to a meeting; the fiber's lane, whose result and flag are set.
uint32_t bring(Fiber &f, WarpOp op, uint32_t detail, uint32_t mask, uint64_t value)
{
    f.warp->value[f.thread.lane] = value;
    f.warp->meet(f, op, detail, mask);
    return f.thread.lane;
}

}  // namespace

void rt_bar_warp_sync(rgpu_thread *t, uint32_t, uint32_t mask)
{
    Fiber &f = fiber_of(t);
    f.warp->meet(f, WarpOp::sync, 0, mask);
}

uint32_t rt_shfl(rgpu_thread *t, uint32_t, uint32_t op, uint32_t mask, uint32_t value, uint32_t b,
                 uint32_t c, uint32_t *valid)
{
    Fiber &f = fiber_of(t);
    f.warp->b[f.thread.lane] = b;
    f.warp->c[f.thread.lane] = c;
    uint32_t lane = bring(f, WarpOp::shfl, op, mask, value);
    if (valid) *valid = f.warp->flag[lane];
    return f.warp->result[lane];
}

uint32_t rt_vote(rgpu_thread *t, uint32_t, uint32_t op, uint32_t mask, uint32_t predicate)
{
    Fiber &f = fiber_of(t);
    return f.warp->result[bring(f, WarpOp::vote, op, mask, predicate)];
}

uint32_t rt_match_any(rgpu_thread *t, uint32_t, uint32_t mask, uint64_t value)
{
    Fiber &f = fiber_of(t);
    return f.warp->result[bring(f, WarpOp::match_any, 0, mask, value)];
}

uint32_t rt_match_all(rgpu_thread *t, uint32_t, uint32_t mask, uint64_t value, uint32_t *predicate)
{
    Fiber &f = fiber_of(t);
    uint32_t lane = bring(f, WarpOp::match_all, 0, mask, value);
    if (predicate) *predicate = f.warp->flag[lane];
    return f.warp->result[lane];
}

uint32_t rt_redux(rgpu_thread *t, uint32_t, uint32_t op, uint32_t mask, uint32_t value)
{
    Fiber &f = fiber_of(t);
    return f.warp->result[bring(f, WarpOp::redux, op, mask, value)];
}

uint32_t rt_activemask(rgpu_thread *t, uint32_t site)
{
    Fiber &f = fiber_of(t);
    return f.warp->converge(f, site);
}

void rt_enter(rgpu_thread *t, uint32_t site)
{
    Fiber &f = fiber_of(t);
    f.warp->positioned = true;
    f.warp->position[f.thread.lane].enter(site);
}

void rt_leave(rgpu_thread *t)
{
    Fiber &f = fiber_of(t);
    f.warp->position[f.thread.lane].leave();
}

void rt_loop(rgpu_thread *t, uint32_t nest, uint32_t site)
{
    Fiber &f = fiber_of(t);
    f.warp->positioned = true;
    f.warp->position[f.thread.lane].loop(nest, site);
}

void rt_unloop(rgpu_thread *t, uint32_t nest)
{
    Fiber &f = fiber_of(t);
    f.warp->position[f.thread.lane].unloop(nest);
}

uint32_t rt_elect(rgpu_thread *t, uint32_t, uint32_t mask, uint32_t *predicate)
{
    Fiber &f = fiber_of(t);
    uint32_t lane = bring(f, WarpOp::elect, 0, mask, 0);
    if (predicate) *predicate = f.warp->flag[lane];
    return f.warp->result[lane];
}

void rt_matrix(rgpu_thread *t, uint32_t, uint32_t what, uint64_t code, MatrixLane *lane)
{
    Fiber &f = fiber_of(t);
    f.warp->b[f.thread.lane] = static_cast<uint32_t>(code);
    f.warp->c[f.thread.lane] = static_cast<uint32_t>(code >> 32);
    bring(f, WarpOp::matrix, what, ~0u, reinterpret_cast<uint64_t>(lane));
}
