// SPDX-License-Identifier: Apache-2.0
#include "softgpu/exec/threads.h"

namespace rgpu::softgpu::exec {

Threads::~Threads()
{
    while (Coroutine *c = idle_) {
        idle_ = c->next;
        Coroutine::give(c);
    }
}

void Threads::begin_threads()
{
    live = threads;
    started_ = phases_ = 0;
    turn_over_ = begin_all_ = false;
    barriers_in_use = 0;
    for (FiberList &list : at_barrier) list = {};
    ready_ = yielded_ = {};
}

// Fibers that have not ended leave their stacks as they are: generated code owns nothing.
void Threads::forget_threads()
{
    for (uint32_t i = 0; live && i < threads; ++i) {
        Coroutine *&stack = fibers[i].stack;
        if (!stack) continue;
        stack->reset();
        stack->next = idle_;
        idle_ = stack;
        stack = nullptr;
    }
    live = 0;
    ready_ = yielded_ = {};
    current = nullptr;
    running = nullptr;
}

bool Threads::start(Fiber &f)
{
    Coroutine *c = idle_;
    if (c)
        idle_ = c->next;
    else if (!(c = Coroutine::take(stack_bytes_)))
        return false;
    c->set_body(thread_body_, &f);
    f.stack = c;
    f.wait = Wait::none;
    return true;
}

// A warp whose lanes met goes on before a new warp begins; threads that spin come last.
Fiber *Threads::pick()
{
    bool all_begun = started_ == threads;
    if (all_begun || !begin_all_)
        if (Fiber *f = ready_.pop()) return f;
    if (all_begun) return nullptr;
    Fiber &f = fibers[started_];
    if (!start(f)) {
        grid->fail(FaultKind::out_of_resources, 0, "no memory for the stacks of a block's threads");
        return nullptr;
    }
    ++started_;
    return &f;
}

void Threads::leave_to(Fiber *f)
{
    Coroutine &from = running ? *running : worker->scheduler;
    Coroutine &to = f ? *f->stack : worker->scheduler;
    current = f;
    running = f ? f->stack : nullptr;
    Coroutine::switch_to(from, to);
}

void Threads::suspend(Fiber &f)
{
    Fiber *next = pick();
    if (next != &f) leave_to(next);
}

void Threads::yield(Fiber &f)
{
    yielded_.push_back(f);
    suspend(f);
}

void Threads::visit_scheduler()
{
    if (current) ready_.push_front(*current);
    leave_to(nullptr);
}

void Threads::phase_ended()
{
    if (++phases_ < kTurn && !grid->stopped()) return;
    turn_over_ = true;
    ready_.append(yielded_);
    ready_.push_back(*current);
    leave_to(nullptr);
}

void Threads::abandon()
{
    leave_to(nullptr);
    __builtin_unreachable();
}

}  // namespace rgpu::softgpu::exec
