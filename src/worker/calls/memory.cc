// Memory calls that wait for the GPU though CUDA does not say so.
#include "worker/calls/own.h"
#include "worker/driver/driver.h"
#include "worker/limits/metering.h"

namespace rgpu::worker::own {

Result<void> cuMemFree_v2(Session &s, Call &call)
{
    const auto address = call.body.value<CUdeviceptr>();
    if (!call.body.at_end()) return misfit();
    if (address && !s.addresses.has(address, 1)) {
        s.finish(call, CUDA_ERROR_INVALID_VALUE);
        return {};
    }
    s.addresses.take(address);
    Metering::here().look_at_memory();
    if (!s.callbacks.pending()) {
        s.finish(call, DRIVER(cuMemFree_v2)(address));
        return {};
    }
    s.frees.start(s.context(), address, [&s, call](CUresult r) { s.finish(call, r); });
    return {};
}

}  // namespace rgpu::worker::own
