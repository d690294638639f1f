// SPDX-License-Identifier: Apache-2.0
#include "worker/driver/warm.h"

#include <atomic>

namespace rgpu::worker {
namespace {

constexpr CUdevice kDevice = 0;

const Driver *beneath;           // what the calls were before
std::atomic<bool> ours = false;  // one retain of kDevice is not the client's

#define BENEATH(name) (beneath->call<CallId::name>())

void give_up(CUdevice device)
{
    if (device == kDevice && ours.exchange(false)) BENEATH(cuDevicePrimaryCtxRelease_v2)(device);
}

}  // namespace

void prepare_context()
{
    CUcontext context = nullptr;
    beneath = new Driver(driver());
    if (BENEATH(cuDevicePrimaryCtxRetain)(&context, kDevice)) return;
    ours = true;
    Driver above = driver();
    above.replace<CallId::cuDevicePrimaryCtxRetain>([](CUcontext *out, CUdevice device) {
        CUresult r = BENEATH(cuDevicePrimaryCtxRetain)(out, device);
        if (!r) give_up(device);
        return r;
    });
    above.replace<CallId::cuDevicePrimaryCtxReset_v2>([](CUdevice device) {
        give_up(device);
        return BENEATH(cuDevicePrimaryCtxReset_v2)(device);
    });
    above.replace<CallId::cuDevicePrimaryCtxSetFlags_v2>([](CUdevice device, unsigned flags) {
        give_up(device);
        return BENEATH(cuDevicePrimaryCtxSetFlags_v2)(device, flags);
    });
    above.replace<CallId::cuDevicePrimaryCtxGetState>(
        [](CUdevice device, unsigned *flags, int *active) {
            CUresult r = BENEATH(cuDevicePrimaryCtxGetState)(device, flags, active);
            if (!r && device == kDevice && ours) *active = 0;
            return r;
        });
    set_driver(above);
}

}  // namespace rgpu::worker
