// SPDX-License-Identifier: Apache-2.0
// Threads for jobs that wait, so that whoever hands them out does not have to.
//
// run() hands a job to an idle thread or starts one, kMostThreads at most. What is over waits until
// one is idle, and so it does where the process gets no further thread. Jobs may run at the same
// time, and begin in their order.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>

namespace rgpu {

class Waiters {
public:
    static constexpr size_t kMostThreads = 512;

    // Any thread. The object must live as long as the process: its threads do. Throws where there
    // is no thread, nor one to be had.
    void run(std::function<void()> job);
    // Jobs that no thread has taken yet.
    size_t behind() const { return behind_.load(std::memory_order_relaxed); }

    // Sees to one thread, so that run() finds one. Throws as it does.
    void prepare();

private:
    void start();
    void work();

    std::mutex mutex_;
    std::condition_variable wanted_;
    std::deque<std::function<void()>> jobs_;
    std::atomic<size_t> behind_{0};  // of jobs_
    size_t idle_ = 0, threads_ = 0;
};

}  // namespace rgpu
