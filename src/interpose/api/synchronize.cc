// SPDX-License-Identifier: Apache-2.0
// Calls that tell the program how far the device is: answered here where that is known (idle.h);
// else what shared memory holds there comes back with the server's answer.
#include <optional>

#include "interpose/mirror/mirror.h"
#include "interpose/span/relay.h"
#include "interpose/state/event_watch.h"
#include "interpose/state/idle.h"
#include "interpose/stream/pools.h"
#include "interpose/stream/read_ahead.h"
#include "interpose/stub/by_hand.h"
#include "interpose/stub/stub.h"

namespace rgpu::interpose::own {

namespace {

// Carries `ask` out; if it says that the stream has got there, so has its memory.
template <bool waits, class Ask> CUresult in_stream(CUstream stream, Ask ask)
{
    if (!session()) return not_ready();
    HandleId id = 0;
    if (CUresult r = detail::id_in(stream, id)) return r;
    auto progress = pools::Progress::of_stream(id);
    if (!mirror::active() && current_context() && idle::stream(id)) {
        progress.reached();
        return relay::failed_in_stream(id);
    }
    const uint64_t mark = mirror::mark();
    std::optional<read_ahead::Wait> wait;
    if (waits) wait.emplace(id);
    const uint64_t asked = idle::moment();
    if (CUresult r = ask()) return r;
    progress.reached();
    if (wait) wait->over();
    if (mirror::active()) {
        if (CUresult r = mirror::reached_stream(mark, id)) return r;
    } else {
        idle::learn_stream(id, asked);
    }
    return relay::failed_in_stream(id);
}

template <bool waits, class Ask> CUresult at_event(CUevent event, Ask ask)
{
    const HandleId id = Handles::get().id(event).value_or(calls::kNoHandle);
    auto progress = pools::Progress::of_event(id);
    if (!mirror::active() && idle::event(id)) {
        progress.reached();
        return relay::failed_in_context(context_of(id));
    }
    const uint64_t mark = mirror::mark(), recorded = idle::recorded(id);
    std::optional<read_ahead::Wait> wait;
    if (waits) wait.emplace();
    if (CUresult r = ask()) return r;
    progress.reached();
    if (wait) wait->over();
    idle::learn_event(id, recorded);
    if (mirror::active())
        if (CUresult r = mirror::reached_event(mark, id)) return r;
    return relay::failed_in_context(context_of(id));
}

}  // namespace

CUresult cuCtxSynchronize()
{
    auto progress = pools::Progress::of_context(current_context());
    if (!mirror::active() && current_context() && idle::context(current_context())) {
        progress.reached();
        return relay::failed_in_context(current_context());
    }
    const uint64_t mark = mirror::mark();
    read_ahead::Wait wait;
    const uint64_t asked = idle::moment();
    if (CUresult r = remote<CallId::cuCtxSynchronize>()) return r;
    progress.reached();
    wait.over();
    idle::learn_context(current_context(), asked);
    if (CUresult r = mirror::reached_everything(mark)) return r;
    return relay::failed_in_context(current_context());
}

CUresult cuStreamSynchronize(CUstream stream)
{
    return in_stream<true>(stream, [&] { return remote<CallId::cuStreamSynchronize>(stream); });
}
CUresult cuStreamQuery(CUstream stream)
{
    return in_stream<false>(stream, [&] { return remote<CallId::cuStreamQuery>(stream); });
}

CUresult cuEventSynchronize(CUevent event)
{
    return at_event<true>(event, [&] { return remote<CallId::cuEventSynchronize>(event); });
}
CUresult cuEventQuery(CUevent event)
{
    return at_event<false>(event, [&] {
        const auto id = Handles::get().id(event);
        if (!session() || !id || mirror::active()) return remote<CallId::cuEventQuery>(event);
        if (const auto reached = event_watch::query(*id))
            return *reached ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
        const uint64_t recorded = idle::recorded(*id), heard = session()->heard();
        const CUresult r = remote<CallId::cuEventQuery>(event);
        if (r == CUDA_ERROR_NOT_READY) event_watch::not_ready(*id, recorded, heard);
        return r;
    });
}

}  // namespace rgpu::interpose::own
