// Calls that tell the program how far the device is: answered here where that is known (idle.h); else what
// shared memory holds there comes back with the server's answer.
#include "interpose/idle.h"
#include "interpose/own.h"
#include "interpose/shared.h"
#include "interpose/stub.h"

namespace rgpu::interpose::own {

namespace {

// Carries `wait` out; if it says that the stream has got there, so has its memory.
template <class Wait> CUresult in_stream(CUstream stream, Wait wait)
{
    if (!session()) return not_ready();
    HandleId id = 0;
    if (CUresult r = detail::id_in(stream, id)) return r;
    if (!shared::active() && current_context() && idle::stream(id)) return CUDA_SUCCESS;
    const uint64_t mark = shared::mark(), asked = idle::moment();
    if (CUresult r = wait()) return r;
    if (shared::active()) return shared::reached_stream(mark, id);
    idle::learn_stream(id, asked);
    return CUDA_SUCCESS;
}

template <class Wait> CUresult at_event(CUevent event, Wait wait)
{
    const HandleId id = Handles::get().id(event).value_or(calls::kNoHandle);
    if (!shared::active() && idle::event(id)) return CUDA_SUCCESS;
    const uint64_t mark = shared::mark(), recorded = idle::recorded(id);
    if (CUresult r = wait()) return r;
    idle::learn_event(id, recorded);
    return shared::active() ? shared::reached_event(mark, id) : CUDA_SUCCESS;
}

}  // namespace

CUresult cuCtxSynchronize()
{
    if (!shared::active() && current_context() && idle::context(current_context())) return CUDA_SUCCESS;
    const uint64_t mark = shared::mark(), asked = idle::moment();
    if (CUresult r = remote<CallId::cuCtxSynchronize>()) return r;
    idle::learn_context(current_context(), asked);
    return shared::reached_everything(mark);
}

CUresult cuStreamSynchronize(CUstream stream)
{
    return in_stream(stream, [&] { return remote<CallId::cuStreamSynchronize>(stream); });
}
CUresult cuStreamQuery(CUstream stream)
{
    return in_stream(stream, [&] { return remote<CallId::cuStreamQuery>(stream); });
}

CUresult cuEventSynchronize(CUevent event)
{
    return at_event(event, [&] { return remote<CallId::cuEventSynchronize>(event); });
}
CUresult cuEventQuery(CUevent event)
{
    return at_event(event, [&] { return remote<CallId::cuEventQuery>(event); });
}

}  // namespace rgpu::interpose::own
