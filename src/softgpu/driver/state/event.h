// SPDX-License-Identifier: Apache-2.0
// An event: a point in a stream's work, and when it was passed.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>

#include "calls/cuda_api.h"
#include "softgpu/driver/base/scheduler.h"
#include "softgpu/driver/base/shared_event.h"
#include "softgpu/driver/state/capture_place.h"

namespace rgpu::softgpu::driver {

class Context;
class Stream;

// Any thread. Owned by the driver's table of handles, and by what refers to it: nodes of graphs and
// calls under way. Recording anew does not change what earlier waits mean.
class Event {
public:
    Event(Context &c, unsigned flags) : context(c), flags(flags) {}

    Context &context;
    const unsigned flags;
    CapturePlace captured;
    std::shared_ptr<SharedEvent>
        shared;  // of CU_EVENT_INTERPROCESS: other processes record and await it too

    // Behind all that the stream was given so far. Not for streams that are being captured.
    void record(Stream &);
    // The same where `place` makes a task of the work it gets.
    void record(const std::function<TaskRef(std::function<void()>)> &place);
    // What passing the newest record means; null when it was never recorded. Not of shared ones.
    TaskRef task() const;
    // Has the newest record been passed? Waits for it.
    bool passed() const;
    void wait() const;
    bool recorded() const;  // since it was made
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
