// A context: what a program has on one device, and the order of its work there.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string_view>
#include <vector>

#include "calls/cuda_api.h"
#include "softgpu/driver/base/scheduler.h"
#include "softgpu/engine.h"

namespace rgpu::softgpu::driver {

class Device;
class Stream;

// Never freed: threads may still have a destroyed one on their stacks. Any thread.
class Context {
public:
    Context(Device &, bool primary, unsigned flags, unsigned api_version);

    Device &device;
    const bool is_primary;
    const unsigned api_version;
    const uint64_t id;
    std::atomic<unsigned> flags;

    CUcontext handle() { return reinterpret_cast<CUcontext>(this); }

    // --- life. A primary context lives while it is retained; others from the start until
    // destroyed.
    bool alive() const { return alive_; }
    void retain();
    bool release();  // false when it is not retained
    void reset();    // ends all that is in it
    int references() const { return references_; }

    // --- errors: the first one of a grid stays, and every later call answers it
    CUresult error() const { return error_.load(std::memory_order_acquire); }
    void fail(CUresult);
    // CONTEXT_IS_DESTROYED, the sticky error, or success.
    CUresult usable() const { return alive_ ? error() : CUDA_ERROR_CONTEXT_IS_DESTROYED; }

    // --- streams
    std::shared_ptr<Stream> legacy_stream();
    std::shared_ptr<Stream> thread_stream();  // of the calling thread
    void add_stream(const std::shared_ptr<Stream> &);
    void remove_stream(const Stream *);
    // Where `task` stands in `stream`'s order: adds it to the scheduler after all that it must
    // follow.
    void order(Stream &, const TaskRef &task, std::vector<TaskRef> after, bool by_caller);
    // The same for a group of tasks: `first` is added, `last` takes its place and is held
    // (Scheduler::hold).
    void order_group(Stream &, const TaskRef &first, const TaskRef &last,
                     std::vector<TaskRef> after);
    // What must be done for the stream to be idle. For the legacy stream all that it waits for.
    std::vector<TaskRef> tails_of(const Stream &);
    CUresult synchronize();

    // --- settings
    CUresult limit(CUlimit, size_t &);
    CUresult set_limit(CUlimit, size_t);
    std::atomic<CUfunc_cache> cache_config = CU_FUNC_CACHE_PREFER_NONE;
    DeviceHeap &heap();
    bool add_peer(Context *);
    bool remove_peer(Context *);

private:
    std::vector<TaskRef> tails();
    void add_predecessors(const Stream &, std::vector<TaskRef> &after);

    std::atomic<bool> alive_;
    std::atomic<int> references_ = 0;
    std::atomic<CUresult> error_ = CUDA_SUCCESS;

    std::mutex mutex_;  // streams and their tails
    std::shared_ptr<Stream> legacy_;
    std::map<uint64_t, std::shared_ptr<Stream>> thread_streams_;
    std::set<Stream *> streams_;
    std::vector<TaskRef>
        left_;  // newest tasks of streams that were destroyed before they were idle

    std::mutex settings_mutex_;
    std::map<CUlimit, size_t> limits_;
    std::unique_ptr<DeviceHeap> heap_;
    std::set<Context *> peers_;
};

// --- which contexts there are, and which one a thread uses

void register_context(Context *);
// From now on an invalid handle.
void forget_context(Context *);
Context *find_context(CUcontext);

// Top of the calling thread's stack, or null.
Context *current_context();
void push_context(Context *);
Context *pop_context();               // null when the stack is empty
void set_current_context(Context *);  // null takes the top away

// The current context, if calls may use it.
CUresult usable_context(Context *&);

}  // namespace rgpu::softgpu::driver
