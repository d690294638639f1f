#include "softgpu/driver/state/context.h"

#include <algorithm>
#include <shared_mutex>

#include "calls/export_tables.h"
#include "softgpu/driver/base/printing.h"
#include "softgpu/driver/graph/capture.h"
#include "softgpu/driver/state/array.h"
#include "softgpu/driver/state/attributes.h"
#include "softgpu/driver/state/driver.h"
#include "softgpu/driver/state/event.h"
#include "softgpu/driver/state/memory.h"
#include "softgpu/driver/state/module.h"
#include "softgpu/driver/state/stream.h"

namespace rgpu::softgpu::driver {

namespace {

std::atomic<uint64_t> next_context_id = 1;

// Numbers of threads: never used twice, as pthread_self() is.
uint64_t thread_number()
{
    static std::atomic<uint64_t> next = 1;
    thread_local uint64_t mine = 0;
    if (!mine) mine = next++;
    return mine;
}

}  // namespace

Context::Context(Device &d, bool primary, unsigned f, unsigned api)
    : device(d), is_primary(primary), api_version(api), id(next_context_id++), flags(f),
      alive_(!primary)
{
    legacy_ = std::make_shared<Stream>(*this, Stream::Kind::legacy, 0, 0);
    register_context(this);
}

// --- life

void Context::retain()
{
    std::lock_guard lock(settings_mutex_);
    references_++;
    alive_ = true;
}

bool Context::release()
{
    {
        std::lock_guard lock(settings_mutex_);
        if (references_ == 0) return false;
        if (--references_ > 0) return true;
    }
    reset();
    return true;
}

void Context::reset()
{
    forget_captures(*this);
    for (const TaskRef &t : tails()) driver().scheduler.wait(t);
    flush_prints();
    alive_ = false;
    references_ = 0;
    calls::forget_context_storage(handle());
    const auto ours = [this](const auto &object) { return &object.context == this; };
    driver().streams.remove_if(ours);
    driver().events.remove_if(ours);
    driver().arrays.remove_if(ours);
    forget_modules(*this);
    for (const Range &r : driver().ranges.remove_all(this)) release_range(r);

    std::scoped_lock lock(mutex_, settings_mutex_);
    legacy_ = std::make_shared<Stream>(*this, Stream::Kind::legacy, 0, 0);
    thread_streams_.clear();
    streams_.clear();
    left_.clear();
    limits_.clear();
    heap_.reset();
    peers_.clear();
    error_ = CUDA_SUCCESS;
}

void Context::fail(CUresult rc)
{
    CUresult none = CUDA_SUCCESS;
    error_.compare_exchange_strong(none, rc);
}

// --- streams

std::shared_ptr<Stream> Context::legacy_stream()
{
    std::lock_guard lock(mutex_);
    return legacy_;
}

std::shared_ptr<Stream> Context::thread_stream()
{
    std::lock_guard lock(mutex_);
    std::shared_ptr<Stream> &s = thread_streams_[thread_number()];
    if (!s) {
        s = std::make_shared<Stream>(*this, Stream::Kind::per_thread, 0, 0);
        streams_.insert(s.get());
    }
    return s;
}

void Context::add_stream(const std::shared_ptr<Stream> &s)
{
    std::lock_guard lock(mutex_);
    streams_.insert(s.get());
}

void Context::remove_stream(const Stream *s)
{
    std::lock_guard lock(mutex_);
    if (!streams_.erase(const_cast<Stream *>(s))) return;
    const Scheduler &scheduler = driver().scheduler;
    std::erase_if(left_, [&](const TaskRef &t) { return scheduler.done(t); });
    if (!scheduler.done(s->tail)) left_.push_back(s->tail);
}

// Under the lock: what a new task of the stream comes after.
void Context::add_predecessors(const Stream &stream, std::vector<TaskRef> &after)
{
    after.push_back(stream.tail);
    // The legacy default stream waits for all blocking streams, and they for it.
    if (stream.kind == Stream::Kind::legacy) {
        for (Stream *other : streams_)
            if (other->blocking() && other->tail) after.push_back(other->tail);
    } else if (stream.blocking()) {
        after.push_back(legacy_->tail);
    }
}

void Context::order(Stream &stream, const TaskRef &task, std::vector<TaskRef> after, bool by_caller)
{
    Scheduler &scheduler = driver().scheduler;
    std::lock_guard lock(mutex_);
    add_predecessors(stream, after);
    if (by_caller)
        scheduler.add_for_caller(task, after);
    else
        scheduler.add(task, after);
    stream.tail = task;
}

void Context::order_group(Stream &stream, const TaskRef &first, const TaskRef &last,
                          std::vector<TaskRef> after)
{
    Scheduler &scheduler = driver().scheduler;
    std::lock_guard lock(mutex_);
    add_predecessors(stream, after);
    scheduler.hold(last);
    scheduler.add(first, after);
    stream.tail = last;
}

std::vector<TaskRef> Context::tails()
{
    std::lock_guard lock(mutex_);
    std::vector<TaskRef> all = left_;
    if (legacy_->tail) all.push_back(legacy_->tail);
    for (Stream *s : streams_)
        if (s->tail) all.push_back(s->tail);
    return all;
}

std::vector<TaskRef> Context::tails_of(const Stream &stream)
{
    std::lock_guard lock(mutex_);
    std::vector<TaskRef> all;
    if (stream.tail) all.push_back(stream.tail);
    if (stream.kind == Stream::Kind::legacy)
        for (Stream *s : streams_)
            if (s->blocking() && s->tail) all.push_back(s->tail);
    return all;
}

CUresult Context::synchronize()
{
    for (const TaskRef &t : tails()) driver().scheduler.wait(t);
    flush_prints();
    return error();
}

// --- settings

CUresult Context::limit(CUlimit which, size_t &value)
{
    static constexpr struct {
        CUlimit limit;
        size_t value;
    } defaults[] = {
        {CU_LIMIT_STACK_SIZE, 1024},
        {CU_LIMIT_PRINTF_FIFO_SIZE, size_t{1} << 20},
        {CU_LIMIT_MALLOC_HEAP_SIZE, DeviceHeap::kDefaultBytes},
        {CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH, 2},
        {CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT, 2048},
        {CU_LIMIT_MAX_L2_FETCH_GRANULARITY, 64},
        {CU_LIMIT_PERSISTING_L2_CACHE_SIZE, 0},
        {CU_LIMIT_SHMEM_SIZE, kSharedPerBlock},
        {CU_LIMIT_CIG_ENABLED, 0},  // no CUDA in graphics; cuBLAS asks
    };
    const auto *known = std::find_if(std::begin(defaults), std::end(defaults),
                                     [&](const auto &d) { return d.limit == which; });
    if (known == std::end(defaults))
        return which < CU_LIMIT_MAX ? CUDA_ERROR_UNSUPPORTED_LIMIT : CUDA_ERROR_INVALID_VALUE;
    std::lock_guard lock(settings_mutex_);
    auto chosen = limits_.find(which);
    value = chosen != limits_.end() ? chosen->second : known->value;
    return CUDA_SUCCESS;
}

CUresult Context::set_limit(CUlimit which, size_t value)
{
    size_t old;
    if (which == CU_LIMIT_SHMEM_SIZE || which == CU_LIMIT_CIG_ENABLED)
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    if (CUresult rc = limit(which, old)) return rc;
    std::lock_guard lock(settings_mutex_);
    // CUDA: the heap has its size once a kernel has used it.
    if (which == CU_LIMIT_MALLOC_HEAP_SIZE && heap_ && value != old && !heap_->resize(value))
        return CUDA_ERROR_INVALID_VALUE;
    limits_[which] = value;
    return CUDA_SUCCESS;
}

DeviceHeap &Context::heap()
{
    size_t bytes = 0;
    limit(CU_LIMIT_MALLOC_HEAP_SIZE, bytes);
    std::lock_guard lock(settings_mutex_);
    if (!heap_) heap_ = std::make_unique<DeviceHeap>(bytes);
    return *heap_;
}

bool Context::add_peer(Context *peer)
{
    std::lock_guard lock(settings_mutex_);
    return peers_.insert(peer).second;
}

bool Context::remove_peer(Context *peer)
{
    std::lock_guard lock(settings_mutex_);
    return peers_.erase(peer);
}

// --- all contexts, and the stacks of threads

namespace {

struct Contexts {
    std::shared_mutex mutex;
    std::set<Context *> all;
};

Contexts &contexts()
{
    static auto *c = new Contexts;
    return *c;
}

// No destructor: the main thread's is used after its thread_local objects are gone.
struct Stack {
    Context **items;
    size_t count, room;
};
thread_local Stack stack;

}  // namespace

void register_context(Context *c)
{
    std::unique_lock lock(contexts().mutex);
    contexts().all.insert(c);
}

void forget_context(Context *c)
{
    std::unique_lock lock(contexts().mutex);
    contexts().all.erase(c);
}

Context *find_context(CUcontext handle)
{
    auto *c = reinterpret_cast<Context *>(handle);
    std::shared_lock lock(contexts().mutex);
    return contexts().all.count(c) ? c : nullptr;
}

Context *current_context() { return stack.count ? stack.items[stack.count - 1] : nullptr; }

void push_context(Context *c)
{
    if (stack.count == stack.room) {
        const size_t room = stack.room ? 2 * stack.room : 8;
        void *more = realloc(stack.items, room * sizeof *stack.items);
        if (!more) throw std::bad_alloc();
        stack.items = static_cast<Context **>(more);
        stack.room = room;
    }
    stack.items[stack.count++] = c;
}

Context *pop_context() { return stack.count ? stack.items[--stack.count] : nullptr; }

void set_current_context(Context *c)
{
    pop_context();
    if (c) push_context(c);
}

CUresult usable_context(Context *&c)
{
    c = current_context();
    return c ? c->usable() : CUDA_ERROR_INVALID_CONTEXT;
}

}  // namespace rgpu::softgpu::driver
