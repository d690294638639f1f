// SPDX-License-Identifier: Apache-2.0
// Host functions in streams. The layout of the body is described in wire/bodies.h.
#include "wire/bodies.h"
#include "worker/calls/own.h"
#include "worker/driver/driver.h"

namespace rgpu::worker::own {

Result<void> cuLaunchHostFunc(Session &s, Call &call)
{
    using enum wire::HostFunctionStep;
    const auto f = wire::HostFunction::read(call.body);
    if (!call.body.at_end()) return misfit();
    if (f.step == done) {
        s.callbacks.done(f.token);
        return {};
    }
    if (f.step != enqueue && f.step != capture) return misfit();
    if (call.relief) return call.decline();
    CUstream stream = nullptr;
    CUresult r = s.objects.get(f.stream, stream);
    if (!r && !DRIVER(cuLaunchHostFunc)) r = CUDA_ERROR_NOT_SUPPORTED;
    if (!r)
        r = f.step == capture ? s.callbacks.capture(stream, f.token)
                              : s.callbacks.enqueue(stream, f.token);
    s.finish(call, r);
    return {};
}

}  // namespace rgpu::worker::own
