// SPDX-License-Identifier: Apache-2.0
#include "rgpud/ports/starts.h"

#include <system_error>

namespace rgpu::serverd {

Starts::Verdict Starts::take(const std::string &lease, std::function<void()> later)
{
    const Time time = now();
    std::lock_guard lock(mutex_);
    std::erase_if(leases_, [&](const auto &known) {
        return !known.second.waiting && known.second.starts.full(time);
    });
    Lease &one = leases_.try_emplace(lease, Lease{{per_second_, at_once_}}).first->second;
    if (one.starts.due(time) <= time && !one.waiting) return one.starts.take(time), Verdict::now;
    if (one.waiting >= at_once_ || stopping_) return Verdict::never;
    try {
        if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
    } catch (const std::system_error &) {
        return Verdict::never;
    }
    one.waiting++;
    waiting_.emplace(one.starts.take(time), Waiting{lease, std::move(later)});
    changed_.notify_one();
    return Verdict::later;
}

void Starts::run()
{
    std::unique_lock lock(mutex_);
    while (!stopping_) {
        if (waiting_.empty())
            changed_.wait(lock);
        else if (const Time next = waiting_.begin()->first; next > now())
            changed_.wait_until(lock, next);
        else {
            auto first = waiting_.extract(waiting_.begin());
            if (auto lease = leases_.find(first.mapped().lease); lease != leases_.end())
                lease->second.waiting--;
            lock.unlock();
            first.mapped().start();
            first = {};
            lock.lock();
        }
    }
}

void Starts::stop()
{
    {
        std::lock_guard lock(mutex_);
        stopping_ = true;
        changed_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
    waiting_.clear();
}

}  // namespace rgpu::serverd
