// SPDX-License-Identifier: Apache-2.0
#include "softgpu/exec/segments.h"

#include <algorithm>
#include <bit>

#include "softgpu/exec/lanes.h"

namespace rgpu::softgpu::exec {

namespace {

bool is_level(uint32_t code)
{
    return static_cast<WarpOp>(code >> 16 & 0xFF) == WarpOp::bar_sync && code >> 24 & kLevel;
}

uint32_t count_of(uint32_t lanes) { return static_cast<uint32_t>(std::popcount(lanes)); }

}  // namespace

bool SegmentRun::begin()
{
    const Dim3 shape = block_->grid->block;
    threads_ = live_ = static_cast<uint32_t>(shape.count());
    barriers_in_use_ = reducing_ = 0;
    const uint32_t count = (threads_ + kWarp - 1) / kWarp;
    const size_t stride = sizeof(WarpState) + frame_bytes_, bytes = stride * count;
    if (bytes > memory_bytes_) {
        memory_.reset(aligned_alloc(alignof(WarpState), bytes));
        memory_bytes_ = memory_ ? bytes : 0;
        if (!memory_) {
            grid_->fail(FaultKind::out_of_resources, 0, "no memory for a block's registers");
            return false;
        }
    }
    warps_.resize(count);
    Dim3 at{0, 0, 0};
    for (uint32_t i = 0; i < count; ++i) {
        Lanes &w = warps_[i];
        w.state = reinterpret_cast<WarpState *>(static_cast<uint8_t *>(memory_.get()) + i * stride);
        w.state->block = block_;
        w.state->warp = i;
        std::fill(std::begin(w.state->next), std::end(w.state->next), 0);
        w.x = at.x, w.y = at.y, w.z = at.z;
        w.present = w.ready = lowest(threads_ - i * kWarp);
        w.ended = w.meetings_open = w.yielded = 0;
        w.together = w.level = true;
        std::fill(std::begin(w.waiting), std::end(w.waiting), 0);
        for (at.x += kWarp; at.x >= shape.x; at.x -= shape.x)
            if (++at.y == shape.y) at.y = 0, ++at.z;
    }
    return true;
}

bool SegmentRun::run(Grid &grid, BlockState &block, rgpu_segments *code, uint32_t frame_bytes)
{
    grid_ = &grid;
    block_ = &block;
    code_ = code;
    frame_bytes_ = frame_bytes;
    if (!begin()) return true;
    while (live_) {
        bool any = false;
        for (Lanes &w : warps_) {
            if (!w.ready) continue;
            any = true;
            if (grid_->stopped()) return true;
            turn(w);
        }
        if (!any) return false;
    }
    return true;
}

// Other warps have their turn after some meetings: this one may wait for what they do.
void SegmentRun::turn(Lanes &w)
{
    w.spun = 0;
    for (uint32_t meetings = 0; w.ready && meetings < kTurn; ++meetings) {
        const uint32_t lanes = behind(w);
        if (lanes != w.alive()) w.together = false;
        w.ready &= ~lanes;
        run_lanes(w, w.state->next[first_of(lanes)] & 0xFFFF, lanes);
        arrived(w, lanes);
    }
    w.ready |= w.yielded;
    w.yielded = 0;
}

// The ready lanes whose place comes first in the text, so that lanes come together again.
uint32_t SegmentRun::behind(const Lanes &w) const
{
    if (w.level && w.ready == w.alive()) return w.ready;
    const uint32_t *next = w.state->next;
    uint32_t lanes = same_as_first(next, w.ready);
    if (lanes == w.ready) return lanes;
    uint32_t best = ~0u;
    for (uint32_t rest = w.ready; rest; rest &= rest - 1)
        best = std::min(best, next[first_of(rest)] & 0xFFFF);
    lanes = 0;
    for (uint32_t rest = w.ready; rest; rest &= rest - 1)
        if ((next[first_of(rest)] & 0xFFFF) == best) lanes |= rest & -rest;
    return lanes;
}

// Lanes that were apart may differ in what the code takes to be the same for all that it is given.
void SegmentRun::run_lanes(Lanes &w, uint32_t segment, uint32_t lanes)
{
    const Dim3 &shape = block_->grid->block;
    uint32_t x = w.x, y = w.y, z = w.z;
    for (uint32_t lane = 0; lane < kWarp && lanes >> lane;) {
        const uint32_t length = std::min(shape.x - x, kWarp - lane);
        for (uint32_t row = lanes >> lane & lowest(length); row;) {
            const uint32_t skip = first_of(row);
            const uint32_t run = w.together ? static_cast<uint32_t>(std::countr_one(row >> skip))
                                            : 1;
            w.state->whole = lowest(run) << (lane + skip) == lanes;
            call(w, segment, lane + skip, run, {x + skip, y, z});
            row &= ~(lowest(run) << skip);
        }
        lane += length;
        x = 0;
        if (++y == shape.y) y = 0, ++z;
    }
}

void SegmentRun::call(Lanes &w, uint32_t segment, uint32_t lane, uint32_t count, Dim3 tid)
{
    at_ = &w;
    segment_ = segment;
    lane_ = lane;
    count_ = count;
    tid_ = tid;
    code_(w.state, segment, lane, count, tid.x, tid.y, tid.z);
    at_ = nullptr;
}

std::optional<SegmentRun::Running> SegmentRun::running() const
{
    if (!at_) return std::nullopt;
    return Running{tid_, {tid_.x + count_ - 1, tid_.y, tid_.z}};
}

// Where a lane has come to is written behind all else that it does in a segment. Lanes at a step
// may have been on their way on.
void SegmentRun::search()
{
    Lanes &w = *at_;
    const uint32_t first = lane_, count = count_, segment = segment_;
    const Dim3 tid = tid_;
    searching_ = true;
    w.state->whole = 0;
    for (uint32_t i = 0; i < count; ++i) {
        const uint32_t next = w.state->next[first + i], at = next & 0xFFFF;
        if (at == segment || static_cast<WarpOp>(next >> 16 & 0xFF) == WarpOp::step)
            call(w, at, first + i, 1, {tid.x + i, tid.y, tid.z});
    }
    searching_ = false;
    at_ = &w, lane_ = first, count_ = count, tid_ = tid;
}

void SegmentRun::forget()
{
    at_ = nullptr;
    searching_ = false;
}

void SegmentRun::arrived(Lanes &w, uint32_t lanes)
{
    while (lanes) {
        const uint32_t same = same_as_first(w.state->next, lanes),
                       code = w.state->next[first_of(lanes)];
        w.level = same == w.alive();
        lanes &= ~same;
        meet(w, same, static_cast<WarpOp>(code >> 16 & 0xFF), code >> 24);
    }
}

void SegmentRun::meet(Lanes &w, uint32_t lanes, WarpOp op, uint32_t detail)
{
    switch (op) {
    case WarpOp::ended: return end(w, lanes);
    case WarpOp::step:
        // Those behind a loop wait for its last lane, unless that may wait for them.
        (detail && ++w.spun > kSpins ? w.yielded : w.ready) |= lanes;
        return;
    case WarpOp::bar_sync:
        if (detail & kWholeBlock) return come_to_barrier(w, lanes, op, 0, 0);
        [[fallthrough]];
    case WarpOp::bar_arrive:
    case WarpOp::bar_red:
        while (lanes) {
            uint32_t same = same_as_first(w.state->values.b, lanes);
            same = same_as_first(w.state->values.c, same);
            lanes &= ~same;
            come_to_barrier(w, same, op, w.state->values.b[first_of(same)] % kBarriers,
                            w.state->values.c[first_of(same)]);
        }
        return;
    default: break;
    }
    while (lanes) {
        const uint32_t same = same_as_first(w.state->mask, lanes),
                       mask = w.state->mask[first_of(lanes)];
        lanes &= ~same;
        if (same & mask) meet(w, same & mask, op, detail, mask);
        // A caller outside its own mask is undefined behaviour in CUDA; it must at least not hang.
        for (uint32_t rest = same & ~mask; rest; rest &= rest - 1)
            meet(w, rest & -rest, op, detail, mask | (rest & -rest));
    }
}

// --- a warp's meetings

void SegmentRun::meet(Lanes &w, uint32_t lanes, WarpOp op, uint32_t detail, uint32_t mask)
{
    Meeting *m = w.meetings, *end = w.meetings + w.meetings_open;
    while (m != end && !(m->op == op && m->detail == detail && m->mask == mask)) ++m;
    if (m == end) {
        *m = {op, detail, mask, 0};
        ++w.meetings_open;
    }
    m->arrived |= lanes;
    if (!(mask & w.alive() & ~m->arrived)) finish(w, *m);
}

void SegmentRun::finish(Lanes &w, Meeting &m)
{
    compute(w.state->values, m);
    w.ready |= m.arrived;
    m = w.meetings[--w.meetings_open];
}

// --- barriers

void SegmentRun::come_to_barrier(Lanes &w, uint32_t lanes, WarpOp op, uint32_t id, uint32_t count)
{
    const bool waits = op != WarpOp::bar_arrive;
    BarrierPhase &b = barriers_[id];
    if (!(barriers_in_use_ >> id & 1)) {
        barriers_in_use_ |= 1u << id;
        b.begin(count, threads_);
    }
    b.arrive(w.state->warp, lanes, w.alive(), waits);
    if (waits) {
        uint32_t trues = 0;
        reducing_ |= uint32_t{op == WarpOp::bar_red} << id;
        if (op == WarpOp::bar_red)
            for (uint32_t rest = lanes; rest; rest &= rest - 1)
                trues += w.state->values.value[first_of(rest)] != 0;
        b.vote(count_of(lanes), trues);
        w.waiting[id] |= lanes;
    } else {
        w.ready |= lanes;
    }
    if (b.complete(live_)) open_barrier(id);
}

void SegmentRun::open_barrier(uint32_t id)
{
    const bool for_all = !barriers_[id].expected();
    const bool reduces = reducing_ >> id & 1;
    for (Lanes &w : warps_) {
        const uint32_t lanes = w.waiting[id];
        if (!lanes) continue;
        // All have come as often to the same barriers, so they are where the others are.
        if (for_all && !w.together && lanes == w.alive() &&
            is_level(w.state->next[first_of(lanes)]))
            w.together = same_as_first(w.state->next, lanes) == lanes;
        for (uint32_t rest = reduces ? lanes : 0; rest; rest &= rest - 1) {
            const uint32_t lane = first_of(rest), code = w.state->next[lane];
            if (static_cast<WarpOp>(code >> 16 & 0xFF) != WarpOp::bar_red) continue;
            w.state->values.result[lane] = barriers_[id].reduced(static_cast<BarRed>(code >> 24));
        }
        w.ready |= lanes;
        w.waiting[id] = 0;
    }
    barriers_in_use_ &= ~(1u << id);
    reducing_ &= ~(1u << id);
}

// --- ends

void SegmentRun::end(Lanes &w, uint32_t lanes)
{
    if (!barriers_in_use_) {
        w.ended |= lanes;
        live_ -= count_of(lanes);
        lanes = 0;
    }
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        w.ended |= rest & -rest;
        --live_;
        for (uint32_t used = barriers_in_use_; used; used &= used - 1) {
            const uint32_t id = first_of(used);
            barriers_[id].thread_ended(w.state->warp, rest & -rest);
            if (barriers_[id].complete(live_)) open_barrier(id);
        }
    }
    for (uint32_t i = 0; i < w.meetings_open;) {
        Meeting &m = w.meetings[i];
        if (m.mask & w.alive() & ~m.arrived)
            ++i;
        else
            finish(w, m);
    }
}

Waiting SegmentRun::waiting() const
{
    Waiting all;
    for (const Lanes &w : warps_) {
        for (uint32_t id = 0; id < kBarriers; ++id) all.at_barrier[id] += count_of(w.waiting[id]);
        for (uint32_t i = 0; i < w.meetings_open; ++i)
            all.meetings.push_back({w.state->warp, w.meetings[i]});
    }
    for (uint32_t id = 0; id < kBarriers; ++id)
        all.expected[id] = barriers_[id].expected() ? barriers_[id].expected() : live_;
    return all;
}

}  // namespace rgpu::softgpu::exec
