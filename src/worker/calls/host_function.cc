// Host functions in streams. The layout of the body is described in interpose/stream/callback.cc.
#include "worker/calls/bodies.h"
#include "worker/calls/own.h"
#include "worker/driver/driver.h"

namespace rgpu::worker::own {

Result<void> cuLaunchHostFunc(Session &s, Call &call)
{
    auto step = call.body.value<HostFunctionStep>();
    if (step == HostFunctionStep::done) {
        auto token = call.body.value<uint64_t>();
        if (!call.body.at_end()) return misfit();
        s.callbacks.done(token);
        return {};
    }
    auto id = call.body.value<HandleId>();
    auto token = call.body.value<uint64_t>();
    if ((step != HostFunctionStep::enqueue && step != HostFunctionStep::capture) ||
        !call.body.at_end())
        return misfit();
    CUstream stream = nullptr;
    CUresult r = s.objects.get(id, stream);
    if (!r && !DRIVER(cuLaunchHostFunc)) r = CUDA_ERROR_NOT_SUPPORTED;
    if (!r)
        r = step == HostFunctionStep::capture ? s.callbacks.capture(stream, token)
                                              : s.callbacks.enqueue(stream, token);
    s.finish(call, r);
    return {};
}

}  // namespace rgpu::worker::own
