// Memory that is given back in another thread: a driver waits for all work before it frees, and the
// work may be waiting for a host function, of whose end the dispatcher has to hear.
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

    // Has `address` freed in `context`, and `answer` called with what the driver says. Dispatcher
    // only; `answer` is called in any thread.
    void start(CUcontext context, CUdeviceptr address, std::function<void(CUresult)> answer);

    // Returns when no memory of the context is left to be freed; its work is over. What no thread
    // has begun yet is freed here: all threads may be waiting for calls that are still to come.
    // Dispatcher only.
    void finish(CUcontext);

private:
    struct Free {
        CUcontext context = nullptr, owner = nullptr;  // the caller's, and the memory's
        CUdeviceptr address = 0;
        std::function<void(CUresult)> answer;
    };
    // The next one, of this owner or of any; false: there is none.
    bool carry_out_next(std::optional<CUcontext> owner = {});

    Waiters &waiters_;
    std::mutex mutex_;
    std::condition_variable fewer_;
    std::deque<Free> waiting_;
    std::multiset<CUcontext> under_way_;  // by owner
};

}  // namespace rgpu::worker
