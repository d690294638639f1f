// SPDX-License-Identifier: Apache-2.0
// A mutex that serves its threads in the order in which they came. std::mutex lets a thread that
// comes back at once go first, again and again: one that sends megabytes would keep out all that
// have a few bytes to send.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace rgpu {

class FairMutex {
public:
    void lock()
    {
        std::unique_lock lock(mutex_);
        const uint64_t mine = next_++;
        turn_.wait(lock, [&] { return now_ == mine; });
    }
    void unlock()
    {
        std::lock_guard lock(mutex_);
        now_++;
        if (now_ != next_) turn_.notify_all();
    }

private:
    std::mutex mutex_;
    std::condition_variable turn_;
    uint64_t next_ = 0, now_ = 0;
};

}  // namespace rgpu
