// SPDX-License-Identifier: Apache-2.0
#include "softgpu/driver/base/scheduler.h"

#include <signal.h>

#include <thread>

#include "softgpu/driver/base/log.h"

namespace rgpu::softgpu::driver {

namespace {

// More tasks than this that block at once wait for each other.
constexpr size_t kMaxThreads = 512;

}  // namespace

void Scheduler::link(const TaskRef &task, const std::vector<TaskRef> &after)
{
    for (const TaskRef &t : after)
        if (t && !t->done_) {
            t->next_.push_back(task);
            task->blockers_++;
        }
    if (!task->blockers_) make_ready(task);
}

void Scheduler::make_ready(const TaskRef &task)
{
    task->ready_ = true;
    if (task->by_caller_) {
        if (task->waited_for_) done_.notify_all();
        return;
    }
    ready_.push_back(task);
    if (ready_.size() <= idle_)
        work_.notify_one();
    else if (threads_ < kMaxThreads)
        start_thread();
}

void Scheduler::start_thread()
{
    // Signals for the program are handled by its own threads; faults of kernels arrive here.
    sigset_t all, old;
    sigfillset(&all);
    for (int s : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) sigdelset(&all, s);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    try {
        std::thread([this] { serve(); }).detach();
        threads_++;
    } catch (const std::exception &e) {
        if (!threads_) complain("no thread to run a stream: %s", e.what());
    }
    pthread_sigmask(SIG_SETMASK, &old, nullptr);
}

void Scheduler::add(const TaskRef &task, const std::vector<TaskRef> &after)
{
    std::lock_guard lock(mutex_);
    link(task, after);
}

void Scheduler::hold(const TaskRef &task)
{
    std::lock_guard lock(mutex_);
    task->blockers_++;
}

void Scheduler::release(const TaskRef &task, const std::vector<TaskRef> &after)
{
    std::lock_guard lock(mutex_);
    task->blockers_--;
    link(task, after);
}

void Scheduler::add_for_caller(const TaskRef &task, const std::vector<TaskRef> &after)
{
    std::lock_guard lock(mutex_);
    task->by_caller_ = true;
    link(task, after);
}

void Scheduler::run_by_caller(const TaskRef &task)
{
    {
        std::unique_lock lock(mutex_);
        task->waited_for_ = true;
        done_.wait(lock, [&] { return task->ready_; });
    }
    task->work_();
    finish(task, false);
}

// Marks it done; returns one task that became ready by it for the caller to run, if asked to.
TaskRef Scheduler::finish(const TaskRef &task, bool take_next)
{
    task->work_ =
        nullptr;  // without the lock, and before anybody hears that it is done: it may hold memory
    std::vector<TaskRef> next;
    TaskRef mine;
    std::lock_guard lock(mutex_);
    next.swap(task->next_);
    task->done_ = true;
    for (const TaskRef &t : next) {
        if (--t->blockers_) continue;
        if (take_next && !mine && !t->by_caller_)
            (mine = t)->ready_ = true;
        else
            make_ready(t);
    }
    // Whoever waits for the last of a thousand tasks is not woken by each of them.
    if (task->waited_for_) done_.notify_all();
    return mine;
}

void Scheduler::serve()
{
    TaskRef task;
    for (;;) {
        if (!task) {
            std::unique_lock lock(mutex_);
            idle_++;
            work_.wait(lock, [&] { return !ready_.empty(); });
            idle_--;
            task = std::move(ready_.front());
            ready_.pop_front();
        }
        task->work_();
        task = finish(task, true);
    }
}

bool Scheduler::done(const TaskRef &task) const
{
    if (!task) return true;
    std::lock_guard lock(mutex_);
    return task->done_;
}

void Scheduler::wait(const TaskRef &task)
{
    if (!task) return;
    std::unique_lock lock(mutex_);
    task->waited_for_ = true;
    done_.wait(lock, [&] { return task->done_; });
}

}  // namespace rgpu::softgpu::driver
