// Host functions in streams: the driver's callback waits here until the client has run its own.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>

#include "calls/cuda_api.h"

namespace rgpu::worker {

class Session;

class Callbacks {
public:
    // Puts a host function into the stream. Dispatcher only.
    CUresult enqueue(Session &, CUstream, uint64_t token);
    // The client has run it. False for a token that is not waiting.
    bool done(uint64_t token);

private:
    struct Gate {
        Session *session = nullptr;
        Callbacks *all = nullptr;
        uint64_t token = 0;
        bool open = false;
    };
    static void reached(void *gate);

    std::mutex mutex_;
    std::condition_variable opened_;
    std::map<uint64_t, std::unique_ptr<Gate>> gates_;
};

}  // namespace rgpu::worker
