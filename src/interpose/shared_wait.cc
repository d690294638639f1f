// Calls that tell the program how far the device is: what shared memory holds there comes back with them.
#include "interpose/own.h"
#include "interpose/shared.h"
#include "interpose/stub.h"

namespace rgpu::interpose::own {

namespace {

// Carries `wait` out; if it says that the stream has got there, so has its memory.
template <class Wait> CUresult in_stream(CUstream stream, Wait wait)
{
    const uint64_t mark = shared::mark();
    CUresult r = wait();
    if (r || !shared::active()) return r;
    HandleId id = 0;
    r = detail::id_in(stream, id);
    return r ? r : shared::reached_stream(mark, id);
}

template <class Wait> CUresult at_event(CUevent event, Wait wait)
{
    const uint64_t mark = shared::mark();
    CUresult r = wait();
    return r || !shared::active() ? r : shared::reached_event(mark, Handles::get().id(event).value_or(0));
}

}  // namespace

CUresult cuCtxSynchronize()
{
    const uint64_t mark = shared::mark();
    CUresult r = remote<CallId::cuCtxSynchronize>();
    return r ? r : shared::reached_everything(mark);
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
