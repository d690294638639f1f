// SPDX-License-Identifier: Apache-2.0
// When a lease's programs get their workers: so many at once, and then so many a second. Others
// wait their turn.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "util/clock.h"
#include "util/token_bucket.h"

namespace rgpu::serverd {

// Any thread. What waits is started in a thread of its own, and dropped when this object goes.
class Starts {
public:
    Starts(int per_second, int at_once) : per_second_(per_second), at_once_(at_once) {}
    ~Starts() { stop(); }

    // Whether the lease may start one now, or later: then `later` is called. Never: as many as may
    // start at once wait already.
    enum class Verdict { now, later, never };
    Verdict take(const std::string &lease, std::function<void()> later);
    void stop();

private:
    struct Lease {
        TokenBucket starts;
        int waiting = 0;
    };
    struct Waiting {
        std::string lease;
        std::function<void()> start;
    };
    void run();

    const int per_second_, at_once_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::map<std::string, Lease> leases_;
    std::multimap<Time, Waiting> waiting_;
    bool stopping_ = false;
    std::thread thread_;
};

}  // namespace rgpu::serverd
