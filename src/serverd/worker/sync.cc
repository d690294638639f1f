// Calls that wait for the GPU: handed to a waiter, answered when it gets there.
#include "serverd/worker/driver.h"
#include "serverd/worker/own.h"

namespace rgpu::worker::own {

namespace {

// Waits in another thread, in the context that the call was made in.
template <class Wait> void wait_elsewhere(Session &s, const Call &call, Wait wait)
{
    s.waiters.run([&s, call, wait, context = s.context()] {
        CUresult r = DRIVER(cuCtxSetCurrent)(context);
        s.finish_wait(call, r ? r : wait());
    });
}

template <class Handle> Result<void> one_handle(Session &s, Call &call, Handle &handle, bool &ok)
{
    auto id = call.body.value<HandleId>();
    if (!call.body.at_end()) return misfit();
    CUresult r = s.objects.get(id, handle);
    if (r) s.finish_wait(call, r);
    ok = !r;
    return {};
}

}  // namespace

Result<void> cuCtxSynchronize(Session &s, Call &call)
{
    if (!call.body.at_end()) return misfit();
    wait_elsewhere(s, call, [] { return DRIVER(cuCtxSynchronize)(); });
    return {};
}

Result<void> cuStreamSynchronize(Session &s, Call &call)
{
    CUstream stream = nullptr;
    bool ok = false;
    if (auto r = one_handle(s, call, stream, ok); !r || !ok) return r;
    // Idle already, as it often is: no other thread needed. NOT_READY is no error here.
    CUresult now = DRIVER(cuStreamQuery)(stream);
    if (now != CUDA_ERROR_NOT_READY) {
        s.finish_wait(call, now);
        return {};
    }
    wait_elsewhere(s, call, [stream] { return DRIVER(cuStreamSynchronize)(stream); });
    return {};
}

Result<void> cuEventSynchronize(Session &s, Call &call)
{
    CUevent event = nullptr;
    bool ok = false;
    if (auto r = one_handle(s, call, event, ok); !r || !ok) return r;
    CUresult now = DRIVER(cuEventQuery)(event);
    if (now != CUDA_ERROR_NOT_READY) {
        s.finish_wait(call, now);
        return {};
    }
    wait_elsewhere(s, call, [event] { return DRIVER(cuEventSynchronize)(event); });
    return {};
}

}  // namespace rgpu::worker::own
