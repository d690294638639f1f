// SPDX-License-Identifier: Apache-2.0
// This worker's turns on all its GPUs: which Turn a context's launches belong to.
//
// The scheduler says what the lease may have now (share/pages.h). Without boards nothing is
// scheduled.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "serverd/worker_start.h"
#include "worker/limits/turn.h"

namespace rgpu::worker {

class Turns {
public:
    // `tell` gets what is told to the program before its worker ends.
    Turns(std::function<void(const std::string &)> tell, const serverd::WorkerStart &);

    // Around each launch, with its context current. Dispatcher only, as all but gate().
    void begin(CUcontext context, const void *work, CUstream stream)
    {
        if (Turn *t = turn(context)) t->begin(work, stream);
    }
    void issued(CUcontext context, CUstream stream)
    {
        if (Turn *t = turn(context)) t->issued(context, stream);
    }
    // Others wait for what was launched and has no events yet.
    bool waited_for() const
    {
        for (const Turn *t : started_)
            if (t->unmarked() && !t->alone()) return true;
        return false;
    }
    // What was launched so far gets its events: a stream is about to end, or nothing more comes in
    // for now.
    void mark();
    void forget(CUcontext);
    // The program waits: see turn.h.
    std::shared_ptr<StreamWait> waits(CUcontext context, CUstream stream)
    {
        Turn *t = turn(context);
        return t ? t->waits(context, stream) : nullptr;
    }
    std::shared_ptr<StreamWait> waits(CUcontext context)
    {
        Turn *t = turn(context);
        return t ? t->waits(context) : nullptr;
    }
    // The program has ended: the memory that it has then may be the most that it had.
    void look_at_memory();
    void copied(CUcontext context, size_t bytes)
    {
        if (Turn *t = turn(context)) t->copied(bytes);
    }
    // A stream stands at a host function, or goes on. Any thread.
    void gate(bool closed);

private:
    Turn *turn(CUcontext context)
    {
        if (boards_.empty()) return nullptr;
        return context == last_context_ ? last_ : look_up(context);
    }
    Turn *look_up(CUcontext);
    Turn *of_device(CUdevice);

    static constexpr int kMaxDevices = 64;
    std::function<void(const std::string &)> tell_;
    const std::string lease_;
    const std::vector<int> boards_;
    const int64_t max_kernel_;  // milliseconds
    CUcontext last_context_ = nullptr;
    Turn *last_ = nullptr;
    std::map<CUcontext, Turn *> of_context_;
    std::vector<Turn *> started_;
    std::atomic<Turn *> of_device_[kMaxDevices] = {};
    std::atomic<uint32_t> gates_{0};
};

// How a Turn is told of a launch: nothing is launched before the object is there, and it knows when
// it goes.
class Launching {
public:
    Launching(Turns &turns, CUcontext context, const void *work, CUstream stream)
        : turns_(turns), context_(context), stream_(stream)
    {
        turns_.begin(context, work, stream);
    }
    Launching(const Launching &) = delete;
    ~Launching() { turns_.issued(context_, stream_); }

private:
    Turns &turns_;
    CUcontext context_;
    CUstream stream_;
};

}  // namespace rgpu::worker
