// The table of functions that are waiting for their streams, and the threads that run them.
//
// Body of a cuLaunchHostFunc frame: step, then (enqueue) number of the stream and token, or (done) token.
#include "interpose/callback.h"

#include <map>
#include <mutex>

#include "interpose/own.h"
#include "interpose/stub.h"
#include "util/waiters.h"

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
    std::map<uint64_t, Function> waiting;
    uint64_t next_token = 1;
    Waiters threads;  // jobs: one for each stream that stands at a function
};

Callbacks &callbacks()
{
    static Callbacks &c = *new Callbacks;
    return c;
}

void run(uint64_t token, CUresult status)
{
    Callbacks &c = callbacks();
    Function f;
    {
        std::lock_guard lock(c.mutex);
        auto it = c.waiting.find(token);
        if (it == c.waiting.end()) return;
        f = it->second;
        c.waiting.erase(it);
    }
    f.run(status);
    if (Session *s = session())
        s->tell(CallId::cuLaunchHostFunc, calls::kNoHandle, [&](wire::Writer &w) {
            w.value(CallbackStep::done), w.value(token);
        });
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
    callbacks().threads.run([=] { run(token, static_cast<CUresult>(status)); });
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
