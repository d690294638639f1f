// An event: a point in a stream's work, and when it was passed.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "calls/cuda_api.h"
#include "softgpu/driver/scheduler.h"

namespace rgpu::softgpu::driver {

class Context;
class Stream;

// Any thread.
class Event {
public:
    Event(Context &c, unsigned flags) : context(c), flags(flags) {}

    Context &context;
    const unsigned flags;

    void record(Stream &);
    // What passing the newest record means; null when it was never recorded.
    TaskRef task() const;
    bool recorded() const;
    // Milliseconds from `start` to this: NOT_READY while either is not passed.
    CUresult since(const Event &start, float &milliseconds) const;

private:
    struct Record {
        TaskRef task;
        std::atomic<int64_t> nanoseconds = 0;
    };
    std::shared_ptr<Record> newest() const;

    mutable std::mutex mutex_;
    std::shared_ptr<Record> record_;
};

}  // namespace rgpu::softgpu::driver
