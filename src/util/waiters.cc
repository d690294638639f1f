// A pool that grows by need. Its threads end with the process.
#include "util/waiters.h"

#include <system_error>
#include <thread>

namespace rgpu {

void Waiters::run(std::function<void()> job)
{
    std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
    if (idle_ >= jobs_.size())
        wanted_.notify_one();
    else
        try {
            start();
        } catch (const std::system_error &) {
            if (threads_) return;
            jobs_.pop_back();
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
        lock.unlock();
        job();
        lock.lock();
    }
}

}  // namespace rgpu
