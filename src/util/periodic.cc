// SPDX-License-Identifier: Apache-2.0
#include "util/periodic.h"

namespace rgpu {

void Periodic::start(Milliseconds period, std::function<void()> work)
{
    work_ = std::move(work);
    thread_ = std::thread([this, period] { run(period); });
}

void Periodic::stop()
{
    {
        std::lock_guard lock(mutex_);
        ending_ = true;
    }
    wake_.notify_all();
    if (thread_.joinable()) thread_.join();
}

void Periodic::run(Milliseconds period)
{
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, period, [this] { return ending_; })) {
        lock.unlock();
        work_();
        lock.lock();
    }
}

}  // namespace rgpu
