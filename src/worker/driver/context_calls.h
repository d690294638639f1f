// SPDX-License-Identifier: Apache-2.0
// The calls of the table that make and end contexts, for the layers in front of the driver which
// follow contexts.
#pragma once

#include "worker/driver/driver.h"

namespace rgpu::worker {

template <CallId... Ids> struct CallList {
    // Calls `f.template operator()<Id>()` for each: a lambda with a template parameter.
    template <class F> static void each(F f) { (f.template operator()<Ids>(), ...); }
};

using ContextMakers = CallList<CallId::cuCtxCreate, CallId::cuCtxCreate_v2, CallId::cuCtxCreate_v3,
                               CallId::cuCtxCreate_v4>;
using ContextEnders = CallList<CallId::cuCtxDestroy, CallId::cuCtxDestroy_v2>;
// They end the device's primary context where nothing else holds it.
using PrimaryContextEnders =
    CallList<CallId::cuDevicePrimaryCtxRelease, CallId::cuDevicePrimaryCtxRelease_v2,
             CallId::cuDevicePrimaryCtxReset, CallId::cuDevicePrimaryCtxReset_v2>;

// A device's primary context around a call that may end it. Made before the call; `real` is what
// that call goes to, and lives longer.
class PrimaryContext {
public:
    PrimaryContext(const Driver &real, CUdevice device) : real_(real), device_(device)
    {
        // Its handle is the same as long as the process lives.
        if (is_active() && !real.call<CallId::cuDevicePrimaryCtxRetain>()(&handle_, device))
            real.call<CallId::cuDevicePrimaryCtxRelease_v2>()(device);
    }
    // Asked after the call: the context, if it has ended; null if it lives, or there was none.
    CUcontext ended() const { return is_active() ? nullptr : handle_; }

private:
    bool is_active() const
    {
        unsigned flags = 0;
        int active = 0;
        real_.call<CallId::cuDevicePrimaryCtxGetState>()(device_, &flags, &active);
        return active != 0;
    }

    const Driver &real_;
    const CUdevice device_;
    CUcontext handle_ = nullptr;
};

}  // namespace rgpu::worker
