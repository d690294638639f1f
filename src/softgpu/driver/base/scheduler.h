// SPDX-License-Identifier: Apache-2.0
// Runs the work of streams: tasks in the order that their dependencies give, on threads that are
// made as they are needed. A stream is no more than a chain of tasks.
//
// Dependencies are tasks that were added before, so there is no cycle, and a task may block (a host
// function, a wait for a value in memory) without stopping others.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace rgpu::softgpu::driver {

class Task {
public:
    explicit Task(std::function<void()> work) : work_(std::move(work)) {}

private:
    friend class Scheduler;
    std::function<void()> work_;
    std::vector<std::shared_ptr<Task>> next_;
    unsigned blockers_ = 0;
    bool done_ = false, ready_ = false, by_caller_ = false;
    bool waited_for_ =
        false;  // somebody sleeps until it is done, or ready where it is its caller's
};
using TaskRef = std::shared_ptr<Task>;

// Any thread. Lives for ever.
class Scheduler {
public:
    // Runs the task on some thread once all of `after` (null entries allowed) are done.
    void add(const TaskRef &task, const std::vector<TaskRef> &after);
    // The same in two steps, on the calling thread: its place in the order is taken by the first,
    // the second waits for its turn and runs it.
    void add_for_caller(const TaskRef &task, const std::vector<TaskRef> &after);
    void run_by_caller(const TaskRef &task);

    // The same in two steps, for a task whose place must be taken before what it waits for is
    // there: it does not run before release().
    void hold(const TaskRef &task);
    void release(const TaskRef &task, const std::vector<TaskRef> &after);

    bool done(const TaskRef &) const;  // null is done
    void wait(const TaskRef &);

private:
    void link(const TaskRef &, const std::vector<TaskRef> &after);
    void make_ready(const TaskRef &);
    TaskRef finish(const TaskRef &, bool take_next);
    void start_thread();
    void serve();

    mutable std::mutex mutex_;
    std::condition_variable work_, done_;
    std::deque<TaskRef> ready_;
    size_t idle_ = 0, threads_ = 0;
};

}  // namespace rgpu::softgpu::driver
