// SPDX-License-Identifier: Apache-2.0
// A stream: work that is done in the order in which it was given. And all streams of a context,
// with what orders their work among each other.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "calls/cuda_api.h"
#include "softgpu/driver/base/scheduler.h"
#include "softgpu/driver/state/capture_place.h"

namespace rgpu::softgpu::driver {

class Context;
class Streams;

// Any thread. Lives while a handle, a call or its context's Streams knows it; tasks outlive it.
class Stream {
public:
    enum class Kind { legacy, per_thread, user };

    Stream(Streams &, Context &, Kind, unsigned flags, int priority);

    Context &context;
    const Kind kind;
    const unsigned flags;
    const int priority;
    const uint64_t id;
    CapturePlace captured;
    // Whether it belongs to a capture, for those who do not hold graph_lock().
    std::atomic<bool> capturing = false;

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
    friend class Streams;
    TaskRef make(std::function<void()> work);

    Streams &streams_;  // of the context, as long-lived as that
    TaskRef tail_;      // the newest task; the lock of `streams_` guards it
};

// The streams of one context, the order of their tasks, and the error that stops them all. Any
// thread.
class Streams {
public:
    explicit Streams(Context &);

    std::shared_ptr<Stream> legacy();
    std::shared_ptr<Stream> of_thread();  // the calling thread's default stream
    std::shared_ptr<Stream> create(unsigned flags, int priority);
    // The program destroys it; its work goes on.
    void remove(const Stream *);
    // The context begins anew: without streams, without the error.
    void clear();

    // The first error of a grid stays, until clear().
    CUresult error() const { return error_.load(std::memory_order_acquire); }
    void fail(CUresult);

    // Where `task` stands in `stream`'s order: adds it to the scheduler after all that it must
    // follow.
    void order(Stream &, const TaskRef &task, std::vector<TaskRef> after, bool by_caller);
    // The same for a group of tasks: `first` is added, `last` takes its place and is held
    // (Scheduler::hold).
    void order_group(Stream &, const TaskRef &first, const TaskRef &last,
                     std::vector<TaskRef> after);
    // What must be done for the stream to be idle. For the legacy stream all that it waits for.
    std::vector<TaskRef> tails_of(const Stream &);
    // Waits for all work, and lets out what kernels printed. Returns the error.
    CUresult synchronize();
    // Keeps it until all work given so far is done. Returns at once.
    void keep(std::shared_ptr<const void>);

private:
    std::shared_ptr<Stream> make(Stream::Kind, unsigned flags, int priority);
    std::vector<TaskRef> tails();
    void add_predecessors(const Stream &, std::vector<TaskRef> &after);

    Context &context_;
    std::atomic<CUresult> error_ = CUDA_SUCCESS;
    std::mutex mutex_;
    std::shared_ptr<Stream> legacy_;
    std::map<uint64_t, std::shared_ptr<Stream>> thread_streams_;
    std::set<Stream *> streams_;
    std::vector<TaskRef> left_;  // newest tasks of streams destroyed before they were idle
};

constexpr int kLeastPriority = 0, kGreatestPriority = -5;

}  // namespace rgpu::softgpu::driver
