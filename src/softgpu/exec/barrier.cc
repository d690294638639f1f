// Named barriers: bar.sync, bar.arrive, bar.red.
//
// A barrier with a count is counted in whole warps, as PTX says: with the first lane of a warp
// come those that the warp lacks or that have ended. Threads that have ended are not waited for.
#include "softgpu/exec/barrier.h"

#include <bit>

#include "softgpu/exec/threads.h"
#include "softgpu/exec/warp.h"

namespace rgpu::softgpu::exec {

namespace {

bool complete(const Threads &block, const Barrier &b)
{
    if (!b.arrived) return false;
    return b.arrived >= (b.expected ? b.expected : block.live + b.gone);
}

uint32_t reduced(const Barrier &b, BarRed op)
{
    switch (op) {
    case BarRed::popc: return b.trues;
    case BarRed::and_: return b.trues == b.people;
    case BarRed::or_: return b.trues != 0;
    }
    return 0;
}

// The phase ends. Each fiber that waits left its operation in `result`.
void finish(Threads &block, uint32_t id)
{
    Barrier &b = block.barriers[id];
    for (Fiber *f = b.waiting.head; f; f = f->next) {
        f->result = reduced(b, static_cast<BarRed>(f->result));
        f->wait = Wait::none;
        f->warp->lanes_unblocked(1);
    }
    block.make_ready(b.waiting);
    block.barriers_in_use &= ~(1u << id);
}

// Counts the fiber in, and begins a phase where none is.
Barrier &arrive(Fiber &f, uint32_t id, uint32_t count)
{
    Threads &block = *f.block;
    Barrier &b = block.barriers[id];
    if (!(block.barriers_in_use >> id & 1)) {
        block.barriers_in_use |= 1u << id;
        b.arrived = b.people = b.trues = b.gone = b.warps = b.passed_warps = 0;
        // A count of all threads is met by those that are left, as one without count is.
        b.expected = count >= block.threads ? 0 : count;
    }
    ++b.arrived;
    uint32_t warp = uint32_t{1} << f.thread.warp;
    if (!(b.warps & warp)) {
        b.warps |= warp;
        if (b.expected)
            b.arrived += static_cast<uint32_t>(std::popcount(~(f.warp->present & ~f.warp->ended)));
    }
    return b;
}

uint32_t wait_at(Fiber &f, uint32_t id, uint32_t count, BarRed op, uint32_t predicate)
{
    Threads &block = *f.block;
    id %= kBarriers;
    Barrier &b = arrive(f, id, count);
    ++b.people;
    b.trues += predicate != 0;
    if (complete(block, b)) {
        uint32_t mine = reduced(b, op);
        finish(block, id);
        block.phase_ended();
        return mine;
    }
    f.result = static_cast<uint32_t>(op);
    f.wait = Wait::barrier;
    f.barrier = static_cast<uint8_t>(id);
    b.waiting.push_back(f);
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
        Barrier &b = block.barriers[id];
        uint32_t w = f.thread.warp;
        bool passed = (b.passed_warps >> w & 1) && (b.passed[w] & f.bit());
        if (passed)
            ++b.gone;
        else if (b.expected && (b.warps >> w & 1))
            ++b.arrived;
        if (complete(block, b)) finish(block, id);
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
    Barrier &b = arrive(f, id, count);
    uint32_t w = f.thread.warp, warp = uint32_t{1} << w;
    if (!(b.passed_warps & warp)) {
        b.passed_warps |= warp;
        b.passed[w] = 0;
    }
    b.passed[w] |= f.bit();
    if (complete(*f.block, b)) finish(*f.block, id);
}
