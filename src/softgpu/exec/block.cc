// SPDX-License-Identifier: Apache-2.0
// Blocks: laying out threads, running them, and the pool of idle blocks.
#include "softgpu/exec/block.h"

#include <algorithm>
#include <bit>
#include <ctime>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include <sched.h>

#include "softgpu/exec/barrier.h"

namespace rgpu::softgpu::exec {

namespace {

struct Idle {
    std::mutex mutex;
    std::vector<Block *> blocks;
};

// Never destroyed: programs call the driver after its static destructors ran.
Idle &idle()
{
    static Idle *i = new Idle;
    return *i;
}

Dim3 unflatten(uint64_t index, Dim3 shape)
{
    return {static_cast<uint32_t>(index % shape.x),
            static_cast<uint32_t>(index / shape.x % shape.y),
            static_cast<uint32_t>(index / shape.x / shape.y)};
}

uint64_t milliseconds()
{
    timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1000 +
           static_cast<uint64_t>(now.tv_nsec) / 1'000'000;
}

void advance(Dim3 &at, Dim3 shape)
{
    if (++at.x < shape.x) return;
    at.x = 0;
    if (++at.y < shape.y) return;
    at.y = 0;
    ++at.z;
}

}  // namespace

Block *Block::take(const Grid &grid)
{
    size_t stack_bytes = grid.code.stack_bytes;
    auto threads = grid.code.per_thread ? static_cast<uint32_t>(grid.state.block.count()) : 0;
    Block *b = nullptr;
    {
        std::lock_guard lock(idle().mutex);
        auto &all = idle().blocks;
        auto fits = [&](Block *i) {
            return i->capacity_ >= threads && i->stack_bytes_ == stack_bytes;
        };
        auto found = std::find_if(all.rbegin(), all.rend(), fits);
        if (found != all.rend()) {
            b = *found;
            all.erase(std::next(found).base());
        }
    }
    if (!b) {
        b = new (std::nothrow) Block;
        if (!b) return nullptr;
        b->stack_bytes_ = stack_bytes;
        if (threads) {
            b->capacity_ = std::max(kWarp, std::bit_ceil(threads));
            b->fibers.reset(new (std::nothrow) Fiber[b->capacity_]);
            b->warps.reset(new (std::nothrow) Warp[b->capacity_ / kWarp]);
        }
    }
    bool good = !threads || (b->fibers && b->warps);
    if (!grid.code.per_thread && !b->main_) good = (b->main_ = Coroutine::take(stack_bytes));
    if (good && b->shared_.reserve(grid.state.total_shared)) return b;
    delete b;
    return nullptr;
}

void Block::give(Block *b)
{
    if (b->main_busy_) b->main_->reset();
    b->main_busy_ = false;
    b->forget_threads();
    if (b->segments) b->segments->forget();
    {
        std::lock_guard lock(idle().mutex);
        if (idle().blocks.size() < kIdleBlocks) {
            idle().blocks.push_back(b);
            return;
        }
    }
    delete b;
}

Block::~Block()
{
    if (main_) Coroutine::give(main_);
}

void Block::lay_out(Grid &g)
{
    Dim3 shape = g.state.block;
    shape_ = shape;
    threads = static_cast<uint32_t>(shape.count());
    Dim3 tid{0, 0, 0};
    for (uint32_t i = 0; i < threads; ++i, advance(tid, shape)) {
        Fiber &f = fibers[i];
        f = Fiber{};
        f.thread = {&state, tid.x, tid.y, tid.z, i % kWarp, i / kWarp, &f};
        f.block = this;
        f.warp = &warps[i / kWarp];
    }
}

void Block::begin(Grid &g, uint64_t index)
{
    grid = &g;
    Dim3 shape = g.state.block;
    if (shape.x != shape_.x || shape.y != shape_.y || shape.z != shape_.z) lay_out(g);
    state = BlockState{};
    state.grid = &g.state;
    state.shared = shared_.data();
    state.ctaid = unflatten(index, g.state.grid);
    state.engine = this;
    begin_threads();
    for (uint32_t first = 0; first < threads; first += kWarp) {
        uint32_t lanes = std::min(kWarp, threads - first);
        warps[first / kWarp].begin(*this, &fibers[first], lanes == kWarp ? ~0u : (1u << lanes) - 1);
    }
}

// --- "thread" kernels

void Block::ended(Fiber &f)
{
    --live;
    f.stack = nullptr;
    if (barriers_in_use) barriers_thread_ended(f);
    f.warp->lane_ended(f);
}

// A thread that ends hands its stack to one that has not begun, if it is that one's turn.
void Block::thread_body(void *fiber)
{
    auto *f = static_cast<Fiber *>(fiber);
    auto &b = static_cast<Block &>(*f->block);
    Coroutine *mine = f->stack;
    for (;;) {
        b.grid->code(&f->thread);
        b.ended(*f);
        mine->next = b.idle_;
        b.idle_ = mine;
        f = b.pick();
        if (!f || f->stack != mine) break;
        b.current = f;
    }
    b.leave_to(f);
}

Block::Outcome Block::run(Worker &w)
{
    worker = &w;
    w.block = this;
    state.sm_id = w.sm_id;
    uint32_t rounds = 0;
    const uint64_t since = milliseconds();
    Outcome outcome;
    for (;;) {
        if (Fiber *f = pick()) leave_to(f);
        if (w.late_call) serve(*std::exchange(w.late_call, std::nullopt));
        if (grid->must_flush()) grid->flush();
        if (grid->stopped()) {
            outcome = Outcome::stopped;
            break;
        }
        if (!live) {
            outcome = Outcome::done;
            break;
        }
        if (turn_over_) {
            turn_over_ = false;
            phases_ = 0;
            begin_all_ = true;
            if (milliseconds() - since < kSlice || !grid->has_other_work()) continue;
            outcome = Outcome::spinning;
            break;
        }
        if (!ready_.empty() || started_ < threads) continue;
        if (yielded_.empty()) {
            outcome = Outcome::deadlock;
            break;
        }
        ready_.append(yielded_);
        if (grid->has_other_work()) {
            outcome = Outcome::spinning;
            break;
        }
        if (++rounds % kSpinRounds == 0) sched_yield();
    }
    w.block = nullptr;
    worker = nullptr;
    return outcome;
}

// --- "block" kernels

void Block::blocks_body(void *block)
{
    auto &b = *static_cast<Block *>(block);
    Grid &g = *b.grid;
    b.state.ctaid = unflatten(b.first_, g.state.grid);
    for (uint64_t i = b.first_; i < b.last_ && !g.stopped(); ++i) {
        g.code(&b.state);
        advance(b.state.ctaid, g.state.grid);
    }
    b.main_busy_ = false;
    b.leave_to(nullptr);
}

bool Block::run_blocks(Grid &g, Worker &w, uint64_t first, uint64_t last)
{
    grid = &g;
    worker = &w;
    w.block = this;
    state = BlockState{};
    state.grid = &g.state;
    state.shared = shared_.data();
    state.sm_id = w.sm_id;
    state.engine = this;
    first_ = first, last_ = last;
    main_busy_ = true;
    main_->set_body(&blocks_body, this);
    while (main_busy_ && !g.stopped()) {
        running = main_;
        Coroutine::switch_to(w.scheduler, *main_);
        if (g.must_flush()) g.flush();
    }
    w.block = nullptr;
    worker = nullptr;
    return !g.stopped();
}

}  // namespace rgpu::softgpu::exec
