// SPDX-License-Identifier: Apache-2.0
// Memory from the lease's account where there is one; the rest from NVML where the driver is
// NVIDIA's.
#include "worker/host/status.h"

#include "wire/codec.h"
#include "wire/status.h"
#include "worker/driver/device_meter.h"
#include "worker/limits/memory_cap.h"

namespace rgpu::worker {

namespace {

wire::DeviceStatus look_at(int d)
{
    wire::DeviceStatus s;
    size_t total = 0;
    if (DRIVER(cuDeviceTotalMem_v2)(&total, d) == CUDA_SUCCESS)
        s.memory_total = static_cast<int64_t>(total);
    if (MemoryCap *cap = memory_cap(); cap && cap->is_limited(d))
        s.memory_used = static_cast<int64_t>(cap->used(d));
    else if (auto used =
                 reinterpret_cast<uint64_t (*)(int)>(driver().symbol("rgpu_softgpu_memory_used")))
        s.memory_used = static_cast<int64_t>(used(d));
    else if (auto in_use = device_memory_in_use(driver(), d))
        s.memory_used = static_cast<int64_t>(*in_use);
    meter_device(driver(), d, s);
    if (driver().symbol(kSoftwareMark)) s.performance_state = 0;  // it is never slowed down
    return s;
}

}  // namespace

std::vector<uint8_t> device_status()
{
    std::vector<uint8_t> body;
    wire::Writer w(body);
    int count = 0;
    DRIVER(cuDeviceGetCount)(&count);
    w.value(uint64_t{static_cast<unsigned>(count)});
    for (int d = 0; d < count; d++) w.value(look_at(d));
    w.string(driver_release(driver()));
    return body;
}

}  // namespace rgpu::worker
