// SPDX-License-Identifier: Apache-2.0
// Named barriers of fibers: bar.sync, bar.arrive, bar.red.
#include "softgpu/exec/barrier.h"

#include <bit>

#include "softgpu/exec/threads.h"
#include "softgpu/exec/warp.h"

namespace rgpu::softgpu::exec {

namespace {

// The phase ends. Each fiber that waits left its operation in `result`.
void finish(Threads &block, uint32_t id)
{
    FiberList &waiting = block.at_barrier[id];
    for (Fiber *f = waiting.head; f; f = f->next) {
        f->result = block.barriers[id].reduced(static_cast<BarRed>(f->result));
        f->wait = Wait::none;
        f->warp->lanes_unblocked(1);
    }
    block.make_ready(waiting);
    block.barriers_in_use &= ~(1u << id);
}

// Counts the fiber in, and begins a phase where none is.
BarrierPhase &arrive(Fiber &f, uint32_t id, uint32_t count, bool waits)
{
    Threads &block = *f.block;
    BarrierPhase &b = block.barriers[id];
    if (!(block.barriers_in_use >> id & 1)) {
        block.barriers_in_use |= 1u << id;
        b.begin(count, block.threads);
    }
    b.arrive(f.thread.warp, f.bit(), f.warp->present & ~f.warp->ended, waits);
    return b;
}

uint32_t wait_at(Fiber &f, uint32_t id, uint32_t count, BarRed op, uint32_t predicate)
{
    Threads &block = *f.block;
    id %= kBarriers;
    BarrierPhase &b = arrive(f, id, count, true);
    b.vote(1, predicate != 0);
    if (b.complete(block.live)) {
        uint32_t mine = b.reduced(op);
        finish(block, id);
        block.phase_ended();
        return mine;
    }
    f.result = static_cast<uint32_t>(op);
    f.wait = Wait::barrier;
    f.barrier = static_cast<uint8_t>(id);
    block.at_barrier[id].push_back(f);
    f.warp->lane_blocked();
    block.suspend(f);
    return f.result;
}

}  // namespace

void barriers_thread_ended(Fiber &f)
{
    Threads &block = *f.block;
    for (uint32_t rest = block.barriers_in_use; rest; rest &= rest - 1) {
        auto id = static_cast<uint32_t>(std::countr_zero(rest));
        BarrierPhase &b = block.barriers[id];
        b.thread_ended(f.thread.warp, f.bit());
        if (b.complete(block.live)) finish(block, id);
    }
}

}  // namespace rgpu::softgpu::exec

using namespace rgpu::softgpu;
using namespace rgpu::softgpu::exec;

void rt_bar_sync(rgpu_thread *t, uint32_t id, uint32_t count)
{
    wait_at(fiber_of(t), id, count, BarRed::or_, 0);
}

uint32_t rt_bar_red(rgpu_thread *t, uint32_t id, uint32_t count, uint32_t op, uint32_t predicate)
{
    return wait_at(fiber_of(t), id, count, static_cast<BarRed>(op), predicate);
}

void rt_bar_arrive(rgpu_thread *t, uint32_t id, uint32_t count)
{
    Fiber &f = fiber_of(t);
    id %= kBarriers;
    if (arrive(f, id, count, false).complete(f.block->live)) finish(*f.block, id);
}
