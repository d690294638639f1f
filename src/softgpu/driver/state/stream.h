// A stream: work that is done in the order in which it was given.
#pragma once

#include <functional>
#include <memory>

#include "calls/cuda_api.h"
#include "softgpu/driver/base/scheduler.h"
#include "softgpu/driver/graph/capture.h"
#include "softgpu/driver/state/context.h"

namespace rgpu::softgpu::driver {

class Stream {
public:
    enum class Kind { legacy, per_thread, user };

    Stream(Context &, Kind, unsigned flags, int priority);

    Context &context;
    const Kind kind;
    const unsigned flags;
    const int priority;
    const uint64_t id;
    TaskRef tail;           // the newest task; the context's lock guards it
    CapturePlace captured;  // graph_lock() guards it
    std::atomic<bool> capturing =
        false;  // whether it belongs to a capture, for those who do not hold that lock

    // Ordered with the legacy default stream.
    bool blocking() const { return !(flags & CU_STREAM_NON_BLOCKING); }

    // Does `work` when all before it is done, and what `after` names. Work of a context that has
    // failed is left out. Returns at once.
    TaskRef enqueue(std::function<void()> work, std::vector<TaskRef> after = {});
    // The same, and returns when it is done; on the calling thread. Returns the context's error.
    CUresult run(std::function<void()> work);
    bool idle();
    CUresult synchronize();

private:
    TaskRef make(std::function<void()> work);
};

// The stream that a handle means to the calling thread, if its context may be used.
// CUDA_ERROR_INVALID_HANDLE when there is none.
CUresult find_stream(CUstream, std::shared_ptr<Stream> &);

constexpr int kLeastPriority = 0, kGreatestPriority = -5;

}  // namespace rgpu::softgpu::driver
