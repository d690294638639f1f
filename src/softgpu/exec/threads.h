// SPDX-License-Identifier: Apache-2.0
// The threads of one block: which of them can run, which runs next, and how the OS thread goes
// from one to the other.
//
// One OS thread at a time runs a block. Everything here is called on it, on a fiber of the block or
// on its scheduler's stack; nothing is locked.
#pragma once

#include <cstdint>
#include <memory>

#include "softgpu/exec/barrier_phase.h"
#include "softgpu/exec/coroutine.h"
#include "softgpu/exec/fiber.h"
#include "softgpu/exec/grid.h"
#include "softgpu/exec/limits.h"
#include "softgpu/exec/worker.h"

namespace rgpu::softgpu::exec {

class Threads {
public:
    // --- for rt_*, warps and barriers, on a fiber of this block

    // Leaves the fiber, which waits in some list or group, for one that can run.
    void suspend(Fiber &);
    // Lets others run first.
    void yield(Fiber &);
    // To the scheduler and back: for work that must not run on a fiber's stack.
    void visit_scheduler();
    // Threads have met, and the current one goes on. Those that meet in a loop would keep the OS
    // thread for themselves: now and then they must let go.
    void phase_ended();
    // Never to come back: the grid is stopped.
    [[noreturn]] void abandon();
    void make_ready(Fiber &f) { ready_.push_back(f); }
    void make_ready_first(FiberList &list) { ready_.prepend(list); }
    void make_ready(FiberList &list) { ready_.append(list); }

    Grid *grid = nullptr;
    Worker *worker = nullptr;      // the OS thread that runs the block now
    Fiber *current = nullptr;      // the thread that runs now; null in a "block" kernel
    Coroutine *running = nullptr;  // the stack that runs now; null: the scheduler
    uint32_t threads = 0, live = 0;
    uint32_t barriers_in_use = 0;  // those with a phase begun
    BarrierPhase barriers[kBarriers];
    FiberList at_barrier[kBarriers];
    std::unique_ptr<Fiber[]> fibers;

protected:
    // What a fiber's stack runs; its argument is the fiber.
    explicit Threads(Coroutine::Body thread_body) : thread_body_(thread_body) {}
    // Gives idle stacks back.
    ~Threads();
    // Who runs next, with a stack; null: nobody can. Without memory for a stack the grid fails.
    Fiber *pick();
    // To that fiber, or to the scheduler.
    void leave_to(Fiber *);
    // For a new block of the grid: nobody has begun.
    void begin_threads();
    // Whatever they were doing is forgotten.
    void forget_threads();

    FiberList ready_, yielded_;
    uint32_t started_ = 0;
    uint32_t phases_ = 0;  // meetings since others last had their turn
    bool turn_over_ = false;
    bool begin_all_ = false;     // threads that have not begun come first
    Coroutine *idle_ = nullptr;  // stacks whose thread has ended
    size_t stack_bytes_ = 0;

private:
    bool start(Fiber &);

    const Coroutine::Body thread_body_;
};

}  // namespace rgpu::softgpu::exec
