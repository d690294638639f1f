// The table of functions that are waiting for their streams, and the thread that runs them.
//
// Body of a cuLaunchHostFunc frame: step, then (enqueue) number of the stream and token, or (done) token.
#include "interpose/callback.h"

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

#include "interpose/own.h"
#include "interpose/stub.h"

namespace rgpu::interpose {

namespace {

struct Function {
    CUhostFn plain = nullptr;
    CUstreamCallback with_status = nullptr;
    CUstream stream = nullptr;
    void *data = nullptr;

    void run(CUresult status) const
    {
        if (with_status)
            with_status(stream, status, data);
        else if (status == CUDA_SUCCESS)  // a host function does not run in a failed context
            plain(data);
    }
};

struct Callbacks {
    std::mutex mutex;
    std::condition_variable due_or_not;
    std::map<uint64_t, Function> waiting;
    std::deque<std::pair<uint64_t, CUresult>> due;
    uint64_t next_token = 1;
    bool thread = false;
};

Callbacks &callbacks()
{
    static Callbacks &c = *new Callbacks;
    return c;
}

void run_all()
{
    Callbacks &c = callbacks();
    std::unique_lock lock(c.mutex);
    for (;;) {
        c.due_or_not.wait(lock, [&] { return !c.due.empty(); });
        auto [token, status] = c.due.front();
        c.due.pop_front();
        auto it = c.waiting.find(token);
        if (it == c.waiting.end()) continue;
        Function f = it->second;
        c.waiting.erase(it);
        lock.unlock();
        f.run(status);
        if (Session *s = session())
            s->post(CallId::cuLaunchHostFunc, calls::kNoHandle, [&](wire::Writer &w) {
                w.value(CallbackStep::done), w.value(token);
            });
        lock.lock();
    }
}

CUresult enqueue(const Function &f)
{
    Session *s = session();
    if (!s) return not_ready();
    if (!current_context()) return CUDA_ERROR_INVALID_CONTEXT;
    if (!f.plain && !f.with_status) return CUDA_ERROR_INVALID_VALUE;
    HandleId stream = 0;
    if (CUresult r = detail::id_in(f.stream, stream)) return r;
    Callbacks &c = callbacks();
    uint64_t token;
    {
        std::lock_guard lock(c.mutex);
        token = c.next_token++;
        c.waiting[token] = f;
        if (!c.thread) std::thread(run_all).detach();
        c.thread = true;
    }
    s->expect_callback();
    CUresult r = s->post(CallId::cuLaunchHostFunc, current_context(), [&](wire::Writer &w) {
        w.value(CallbackStep::enqueue), w.value(stream), w.value(token);
    });
    if (r) {
        std::lock_guard lock(c.mutex);
        c.waiting.erase(token);
    }
    return r;
}

}  // namespace

void callback_due(uint64_t token, uint32_t status)
{
    Callbacks &c = callbacks();
    std::lock_guard lock(c.mutex);
    c.due.emplace_back(token, static_cast<CUresult>(status));
    c.due_or_not.notify_one();
}

namespace own {

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data)
{
    return enqueue({function, nullptr, stream, data});
}

CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback function, void *data, unsigned int flags)
{
    return flags ? CUDA_ERROR_INVALID_VALUE : enqueue({nullptr, function, stream, data});
}

}  // namespace own

}  // namespace rgpu::interpose
