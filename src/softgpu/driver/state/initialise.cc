// SPDX-License-Identifier: Apache-2.0
#include "softgpu/driver/state/initialise.h"

#include <pthread.h>
#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "calls/uuid.h"
#include "softgpu/driver/base/log.h"
#include "softgpu/driver/state/context.h"
#include "softgpu/driver/state/driver.h"
#include "softgpu/driver/state/pool.h"
#include "util/visible_devices.h"

namespace rgpu::softgpu::driver {

namespace {

enum class Phase { before, ready, forked };
std::atomic<Phase> phase = Phase::before;

Result<std::unique_ptr<GpuHost>> join_host(const Driver &d)
{
    if (d.settings.devices_file)
        return GpuHost::join(Fd(*d.settings.devices_file), d.settings.host, d.addresses());
    if (d.settings.shares) return GpuHost::join(d.settings.host, d.addresses());
    Fd file(memfd_create("rgpu-devices", MFD_CLOEXEC));
    if (!file) return error(ErrorKind::exhausted, "a file in memory: %s", strerror(errno));
    return GpuHost::join(std::move(file), d.settings.host, d.addresses());
}

Device *make_device(Driver &d, int host_index, CUuuid uuid)
{
    auto *device =
        new Device(*d.host, d.settings, static_cast<int>(d.devices.size()), host_index, uuid);
    device->primary = new Context(*device, true, 0, 3020);
    device->default_pool = std::make_shared<Pool>(*device, true);
    d.pools.add(device->default_pool);
    return device;
}

CUresult start(Driver &d)
{
    Result<Settings> settings = Settings::from_environment();
    if (!settings) {
        complain("%s", settings.error().text.c_str());
        return CUDA_ERROR_INVALID_VALUE;
    }
    d.settings = *settings;
    if (!d.host) {
        Result<std::unique_ptr<GpuHost>> host = join_host(d);
        if (!host) {
            complain("%s", host.error().text.c_str());
            switch (host.error().kind) {
            case ErrorKind::unavailable: return CUDA_ERROR_DEVICE_UNAVAILABLE;
            case ErrorKind::exhausted: return CUDA_ERROR_OUT_OF_MEMORY;
            default: return CUDA_ERROR_UNKNOWN;
            }
        }
        d.host = std::move(*host);
    }
    std::vector<CUuuid> uuids;
    std::vector<std::string> names;
    for (int i = 0; i < d.settings.devices; i++) {
        uuids.push_back(make_uuid(d.settings.host, i));
        names.push_back(calls::uuid_text(uuids.back()));
    }
    for (int i : visible_devices(getenv("CUDA_VISIBLE_DEVICES"), names))
        d.devices.push_back(make_device(d, i, uuids[i]));
    return d.devices.empty() ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}

}  // namespace

bool is_initialised() { return phase.load(std::memory_order_acquire) == Phase::ready; }

CUresult initialise()
{
    static auto *mutex = new std::mutex;
    if (phase == Phase::forked) return CUDA_ERROR_NOT_INITIALIZED;
    std::lock_guard lock(*mutex);
    if (phase == Phase::ready) return CUDA_SUCCESS;
    if (CUresult rc = start(driver())) return rc;
    pthread_atfork(nullptr, nullptr, [] { phase = Phase::forked; });
    phase = Phase::ready;
    return CUDA_SUCCESS;
}

}  // namespace rgpu::softgpu::driver
