// SPDX-License-Identifier: Apache-2.0
// Calls that wait for the GPU though CUDA does not say so: they end what its work may still use.
#include "worker/bands/bands.h"
#include "worker/calls/own.h"
#include "worker/calls/serve.h"
#include "worker/driver/driver.h"
#include "worker/limits/metering.h"

namespace rgpu::worker::own {

namespace {

// The context of the memory at the address, or else the caller's.
CUcontext owner_of(Session &s, CUdeviceptr address)
{
    CUcontext owner = nullptr;
    if (DRIVER(cuPointerGetAttribute)(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, address) || !owner)
        return s.context();
    return owner;
}

// A call whose only parameter is the handle that it ends. `owner` may not end before it.
template <CallId Id> Result<void> end(Session &s, Call &call, CUcontext owner)
{
    if (!s.callbacks.pending()) return serve<Id>(s, call);
    const auto function = driver().call<Id>();
    const auto id = call.body.value<HandleId>();
    if (!call.body.at_end()) return misfit();
    const CUresult r = [&]<class Handle>(CUresult (*)(Handle)) {
        Handle handle{};
        if (CUresult unknown = s.objects.get(id, handle)) return unknown;
        if (!handle) return calls::invalid_handle(calls::kHandleKind<Handle>);
        if (!function) return CUDA_ERROR_NOT_SUPPORTED;
        s.frees.start({s.context(), owner, [=] { return function(handle); },
                       [&s, call](CUresult ended) { s.finish(call, ended); }});
        return CUDA_SUCCESS;
    }(function);
    if (r)
        s.finish(call, r);
    else
        s.objects.end(id);  // whatever becomes of the call
    return {};
}

}  // namespace

Result<void> cuModuleUnload(Session &s, Call &call)
{
    return end<CallId::cuModuleUnload>(s, call, s.context());
}

// A library is of no context.
Result<void> cuLibraryUnload(Session &s, Call &call)
{
    return end<CallId::cuLibraryUnload>(s, call, nullptr);
}

Result<void> cuArrayDestroy(Session &s, Call &call)
{
    return end<CallId::cuArrayDestroy>(s, call, s.context());
}

Result<void> cuMipmappedArrayDestroy(Session &s, Call &call)
{
    return end<CallId::cuMipmappedArrayDestroy>(s, call, s.context());
}

Result<void> cuMemFree_v2(Session &s, Call &call)
{
    const auto address = call.body.value<CUdeviceptr>();
    if (!call.body.at_end()) return misfit();
    if (address && !s.addresses.has(address, 1) && (!bands() || bands()->is_gone(address))) {
        s.finish(call, CUDA_ERROR_INVALID_VALUE);
        return {};
    }
    s.addresses.take(address);
    Metering::here().look_at_memory();
    // A client that gives out addresses itself knows when there is nothing to wait for.
    if (!s.callbacks.waits_for_client()) {
        s.finish(call, DRIVER(cuMemFree_v2)(address));
        return {};
    }
    s.frees.start({s.context(), owner_of(s, address),
                   [address] { return DRIVER(cuMemFree_v2)(address); },
                   [&s, call](CUresult r) { s.finish(call, r); }});
    return {};
}

}  // namespace rgpu::worker::own
