// SPDX-License-Identifier: Apache-2.0
// The ends of contexts: what the worker keeps in one for its own use goes before it.
#include "worker/calls/own.h"
#include "worker/calls/serve.h"
#include "worker/limits/metering.h"

namespace rgpu::worker::own {

namespace {

// A context's work ends, its bytes are sent, and chunks no longer use its events.
void before_end(Session &s, CUcontext context)
{
    CUcontext current = nullptr;
    DRIVER(cuCtxGetCurrent)(&current);
    if (DRIVER(cuCtxSetCurrent)(context)) return;
    DRIVER(cuCtxSynchronize)();
    s.frees.finish(context);
    Metering::here().look_at_memory(true);
    s.copies.send_finished();
    s.long_copies.forget(context);
    s.staging.forget(context);
    s.turns.forget(context);
    s.mirrored.forget(context);
    s.addresses.forget_linear();
    DRIVER(cuCtxSetCurrent)(current);
}

void before_primary_end(Session &s, CUdevice device)
{
    unsigned flags;
    int active = 0;
    CUcontext context = nullptr;
    if (DRIVER(cuDevicePrimaryCtxGetState)(device, &flags, &active) || !active) return;
    if (DRIVER(cuDevicePrimaryCtxRetain)(&context, device)) return;
    before_end(s, context);
    DRIVER(cuDevicePrimaryCtxRelease_v2)(device);
}

}  // namespace

Result<void> cuDevicePrimaryCtxRelease_v2(Session &s, Call &call)
{
    wire::Reader body = call.body;
    before_primary_end(s, body.value<CUdevice>());
    return serve<CallId::cuDevicePrimaryCtxRelease_v2>(s, call);
}

Result<void> cuDevicePrimaryCtxReset_v2(Session &s, Call &call)
{
    wire::Reader body = call.body;
    before_primary_end(s, body.value<CUdevice>());
    return serve<CallId::cuDevicePrimaryCtxReset_v2>(s, call);
}

Result<void> cuCtxDestroy_v2(Session &s, Call &call)
{
    wire::Reader body = call.body;
    CUcontext context = nullptr;
    if (!s.objects.get(body.value<HandleId>(), context) && context) before_end(s, context);
    return serve<CallId::cuCtxDestroy_v2>(s, call);
}

}  // namespace rgpu::worker::own
