// SPDX-License-Identifier: Apache-2.0
// What is given back in another thread: a driver waits for all work before it frees memory or
// unloads a module, and the work may be waiting for a host function, of whose end the dispatcher
// has to hear.
//
// None of it may be left over when its context ends: the driver gives the addresses to whoever asks
// next, and what was late would free that one's memory.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <set>

#include "calls/cuda_api.h"
#include "util/waiters.h"

namespace rgpu::worker {

class Frees {
public:
    explicit Frees(Waiters &waiters) : waiters_(waiters) {}

    // One thing to give back. Both functions are called in any thread.
    struct Free {
        CUcontext context = nullptr;           // the caller's, current while `call` runs
        CUcontext owner = nullptr;             // which may not end before; null: none
        std::function<CUresult()> call;        // the driver's
        std::function<void(CUresult)> answer;  // gets what `call` returned
    };
    // Dispatcher only.
    void start(Free);

    // Returns when nothing of the context is left to be given back; its work is over. What no
    // thread has begun yet is carried out here: all threads may be waiting for calls that are still
    // to come. Dispatcher only.
    void finish(CUcontext);

private:
    // The next one, of this owner or of any; false: there is none.
    bool carry_out_next(std::optional<CUcontext> owner = {});

    Waiters &waiters_;
    std::mutex mutex_;
    std::condition_variable fewer_;
    std::deque<Free> waiting_;
    std::multiset<CUcontext> under_way_;  // by owner
};

}  // namespace rgpu::worker
