// SPDX-License-Identifier: Apache-2.0
// Calls that wait for the GPU: handed to a waiter, answered when it gets there.
#include "worker/calls/own.h"
#include "worker/driver/driver.h"
#include "worker/session/stream_order.h"

namespace rgpu::worker::own {

namespace {

// Waits in another thread, in the context that the call was made in; for these open copies, too.
// `told`: who must know when the driver's wait begins and ends, or null.
template <class Wait> void wait_elsewhere(Session &s, const Call &call,
                                          std::vector<uint64_t> copies,
                                          std::shared_ptr<StreamWait> told, Wait wait)
{
    s.waiters.run([&s, call, wait, context = s.context(), copies = std::move(copies),
                   told = std::move(told)] {
        s.copies.wait_closed(copies);
        if (told) told->begin();
        CUresult r = DRIVER(cuCtxSetCurrent)(context);
        if (!r) r = wait();
        if (told) told->end();
        s.finish_wait(call, r);
    });
}

template <class Handle>
Result<void> one_handle(Session &s, Call &call, HandleId &id, Handle &handle, bool &ok)
{
    id = call.body.value<HandleId>();
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
    auto copies = s.copies.which_open(
        [&](Copies::Key, const Copies::Copy &c) { return c.context == s.context(); });
    wait_elsewhere(s, call, std::move(copies), s.turns.waits(s.context()),
                   [] { return DRIVER(cuCtxSynchronize)(); });
    return {};
}

Result<void> cuStreamSynchronize(Session &s, Call &call)
{
    HandleId id = 0;
    CUstream stream = nullptr;
    bool ok = false;
    if (auto r = one_handle(s, call, id, stream, ok); !r || !ok) return r;
    std::vector<uint64_t> copies;
    if (s.copies.any_open()) copies = copies_in_front(s, stream_key(call, id), stream);
    // Idle already, as it often is: no other thread needed. NOT_READY is no error here.
    CUresult now = !copies.empty() ? CUDA_ERROR_NOT_READY : DRIVER(cuStreamQuery)(stream);
    std::shared_ptr<StreamWait> told = s.turns.waits(s.context(), stream);
    if (now != CUDA_ERROR_NOT_READY) {
        if (told) told->end();
        s.finish_wait(call, now);
        return {};
    }
    wait_elsewhere(s, call, std::move(copies), std::move(told),
                   [stream] { return DRIVER(cuStreamSynchronize)(stream); });
    return {};
}

Result<void> cuEventSynchronize(Session &s, Call &call)
{
    HandleId id = 0;
    CUevent event = nullptr;
    bool ok = false;
    if (auto r = one_handle(s, call, id, event, ok); !r || !ok) return r;
    std::vector<uint64_t> copies;
    if (s.copies.any_open())
        if (const uint64_t copy = s.copies.behind_what(id)) copies.push_back(copy);
    CUresult now = !copies.empty() ? CUDA_ERROR_NOT_READY : DRIVER(cuEventQuery)(event);
    if (now != CUDA_ERROR_NOT_READY) {
        s.finish_wait(call, now);
        return {};
    }
    wait_elsewhere(s, call, std::move(copies), nullptr,
                   [event] { return DRIVER(cuEventSynchronize)(event); });
    return {};
}

}  // namespace rgpu::worker::own
