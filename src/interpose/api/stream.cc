// SPDX-License-Identifier: Apache-2.0
// Streams: what the client knows of them without asking. And which events there can be.
#include <algorithm>

#include "interpose/state/idle.h"
#include "interpose/stream/read_ahead.h"
#include "interpose/stream/sync_copies.h"
#include "interpose/stub/by_hand.h"
#include "interpose/stub/stub.h"

namespace rgpu::interpose::own {

namespace {

// The stream's slot; null for the default streams. An invalid handle is an error.
CUresult look_up(CUstream stream, Slot *&slot)
{
    if (!session()) return not_ready();
    auto id = Handles::get().id(stream);
    if (!id) return CUDA_ERROR_INVALID_HANDLE;
    if (*id < calls::kFirstHandle)
        if (CUresult r = context_state()) return r;
    slot = *id >= calls::kFirstHandle ? Handles::get().at(*id) : nullptr;
    return CUDA_SUCCESS;
}

}  // namespace

CUresult cuStreamCreateWithPriority(CUstream *out, unsigned int flags, int priority)
{
    if (flags & ~unsigned{CU_STREAM_NON_BLOCKING}) return CUDA_ERROR_INVALID_VALUE;
    if (int least = 0, greatest = 0;
        priority && !own::cuCtxGetStreamPriorityRange(&least, &greatest))
        priority = std::clamp(priority, greatest, least);
    CUresult r = remote<CallId::cuStreamCreateWithPriority>(out, flags, priority);
    if (r) return r;
    Slot *s = Handles::get().slot(*out);
    s->flags = flags;
    if (flags & CU_STREAM_NON_BLOCKING) {
        read_ahead::streams_pass_by();
        sync_copies::others_look();
    }
    s->priority = priority;
    return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent *out, unsigned int flags)
{
    constexpr unsigned known = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING |
                               CU_EVENT_INTERPROCESS;
    const bool timed_elsewhere = (flags & CU_EVENT_INTERPROCESS) &&
                                 !(flags & CU_EVENT_DISABLE_TIMING);
    if (current_context() && (flags & ~known || timed_elsewhere)) return CUDA_ERROR_INVALID_VALUE;
    CUresult r = remote<CallId::cuEventCreate>(out, flags);
    if (!r) Handles::get().slot(*out)->flags = flags;
    return r;
}

CUresult cuIpcGetEventHandle(CUipcEventHandle *handle, CUevent event)
{
    idle::events_elsewhere();
    return remote<CallId::cuIpcGetEventHandle>(handle, event);
}

CUresult cuIpcOpenEventHandle(CUevent *event, CUipcEventHandle handle)
{
    idle::events_elsewhere();
    CUresult r = remote<CallId::cuIpcOpenEventHandle>(event, handle);
    if (!r) Handles::get().slot(*event)->flags = CU_EVENT_INTERPROCESS;
    return r;
}

CUresult cuStreamCreate(CUstream *out, unsigned int flags)
{
    return own::cuStreamCreateWithPriority(out, flags, 0);
}

CUresult cuStreamGetFlags(CUstream stream, unsigned int *flags)
{
    Slot *s = nullptr;
    if (CUresult r = look_up(stream, s)) return r;
    if (!flags) return CUDA_ERROR_INVALID_VALUE;
    *flags = s ? s->flags : 0;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetPriority(CUstream stream, int *priority)
{
    Slot *s = nullptr;
    if (CUresult r = look_up(stream, s)) return r;
    if (!priority) return CUDA_ERROR_INVALID_VALUE;
    *priority = s ? s->priority : 0;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetCtx(CUstream stream, CUcontext *context)
{
    Slot *s = nullptr;
    if (CUresult r = look_up(stream, s)) return r;
    if (!context) return CUDA_ERROR_INVALID_VALUE;
    *context = Handles::get().handle<CUcontext>(s ? s->parent : current_context());
    return CUDA_SUCCESS;
}

#if CUDA_VERSION >= 12050
CUresult cuStreamGetCtx_v2(CUstream stream, CUcontext *context, CUgreenCtx *green)
{
    if (green) *green = nullptr;  // no stream belongs to a green context: those cannot be made
    return own::cuStreamGetCtx(stream, context);
}
#endif

#if CUDA_VERSION >= 12080
CUresult cuStreamGetDevice(CUstream stream, CUdevice *out)
{
    CUcontext context = nullptr;
    if (CUresult r = own::cuStreamGetCtx(stream, &context)) return r;
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = Handles::get().slot(context)->device;
    return CUDA_SUCCESS;
}
#endif

}  // namespace rgpu::interpose::own
