// SPDX-License-Identifier: Apache-2.0
// A pool that grows by need. Its threads end with the process.
#include "util/waiters.h"

#include <exception>
#include <thread>

namespace rgpu {

void Waiters::run(std::function<void()> job)
{
    std::unique_lock lock(mutex_);
    jobs_.push_back(std::move(job));
    behind_ = jobs_.size();
    if (idle_ >= jobs_.size()) return wanted_.notify_one();
    if (threads_ == kMostThreads) return;
    try {
        start();
    } catch (const std::exception &) {  // the process has as many as it may have, or no memory
        if (threads_) return;
        jobs_.pop_back();
        behind_ = jobs_.size();
        throw;
    }
}

void Waiters::prepare()
{
    std::lock_guard lock(mutex_);
    if (!threads_) start();
}

// With the mutex held.
void Waiters::start()
{
    std::thread([this] { work(); }).detach();
    threads_++;
}

void Waiters::work()
{
    std::unique_lock lock(mutex_);
    for (;;) {
        while (jobs_.empty()) {
            idle_++;
            wanted_.wait(lock);
            idle_--;
        }
        auto job = std::move(jobs_.front());
        jobs_.pop_front();
        behind_ = jobs_.size();
        lock.unlock();
        job();
        lock.lock();
    }
}

}  // namespace rgpu
