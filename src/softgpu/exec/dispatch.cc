// SPDX-License-Identifier: Apache-2.0
#include "softgpu/exec/dispatch.h"

#include <algorithm>

#include "softgpu/exec/report.h"

namespace rgpu::softgpu::exec {

Dispatch::~Dispatch()
{
    while (Block *b = parked_) {
        parked_ = b->next;
        Block::give(b);
    }
}

bool Dispatch::wants_hands() const { return !grid_.stopped() && grid_.has_other_work(); }

void Dispatch::work(Worker &w)
{
    if (grid_.code.per_thread)
        work_threads(w);
    else
        work_blocks(w);
}

// --- "block" kernels: big pieces first, small ones at the end, so that all cores end together

void Dispatch::work_blocks(Worker &w)
{
    Block *b = nullptr;
    uint64_t at = grid_.progress.next.load(std::memory_order_relaxed);
    while (at < grid_.blocks() && !grid_.stopped()) {
        uint64_t take = std::max<uint64_t>(1, (grid_.blocks() - at) / (uint64_t{4} * cores()));
        if (!grid_.progress.next.compare_exchange_weak(at, at + take, std::memory_order_relaxed))
            continue;
        if (!b && !(b = Block::take(grid_))) {
            grid_.fail(FaultKind::out_of_resources, 0,
                       "no memory for a block's stack or shared memory");
            break;
        }
        if (!b->run_blocks(grid_, w, at, at + take)) break;
        at = grid_.progress.next.load(std::memory_order_relaxed);
    }
    if (b) Block::give(b);
}

// --- "thread" kernels

// A block to run now: one that was put aside, or a new one (for which `spare` is used first).
Block *Dispatch::next_block(bool prefer_new, Block *&spare)
{
    auto can_begin = [&] {
        return grid_.progress.next < grid_.blocks() &&
               grid_.progress.resident < grid_.progress.resident_limit;
    };
    std::unique_lock lock(mutex_);
    if (!spare && can_begin() && (prefer_new || !parked_)) {
        lock.unlock();
        spare = Block::take(grid_);
        lock.lock();
        if (!spare && grid_.progress.resident && !grid_.launch.cooperative)
            grid_.progress.resident_limit = grid_.progress.resident.load();
    }
    if (grid_.stopped()) return nullptr;
    if (parked_ && !(prefer_new && spare && can_begin())) {
        Block *b = parked_;
        parked_ = b->next;
        if (!parked_) parked_tail_ = &parked_;
        --grid_.progress.parked;
        return b;
    }
    if (!can_begin()) return nullptr;
    if (!spare) {
        lock.unlock();
        grid_.fail(FaultKind::out_of_resources, 0,
                   "no memory for a block's threads or shared memory");
        return nullptr;
    }
    ++grid_.progress.resident;
    uint64_t index = grid_.progress.next++;
    lock.unlock();
    Block *b = spare;
    spare = nullptr;
    b->begin(grid_, index);
    return b;
}

void Dispatch::park(Block *b)
{
    std::lock_guard lock(mutex_);
    b->next = nullptr;
    *parked_tail_ = b;
    parked_tail_ = &b->next;
    ++grid_.progress.parked;
}

void Dispatch::work_threads(Worker &w)
{
    Block *spare = nullptr;
    bool spun = false;
    while (Block *b = next_block(spun, spare)) {
        Block::Outcome outcome = b->run(w);
        spun = outcome == Block::Outcome::spinning;
        if (spun) {
            park(b);
            continue;
        }
        if (outcome == Block::Outcome::deadlock)
            grid_.fail(FaultKind::deadlock, 0, describe_deadlock(*b));
        --grid_.progress.resident;
        if (spare || outcome != Block::Outcome::done)
            Block::give(b);
        else
            spare = b;
    }
    if (spare) Block::give(spare);
}

}  // namespace rgpu::softgpu::exec
