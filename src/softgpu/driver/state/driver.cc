#include "softgpu/driver/state/driver.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>

#include "calls/uuid.h"
#include "softgpu/driver/api/export.h"
#include "softgpu/driver/base/log.h"
#include "softgpu/driver/state/context.h"
#include "softgpu/driver/state/pool.h"
#include "util/sha256.h"
#include "util/visible_devices.h"

namespace rgpu::softgpu::driver {

namespace {

enum class Phase { before, ready, forked };
std::atomic<Phase> phase = Phase::before;

uint64_t device_stride(const GpuHost &host, const Settings &s)
{
    return host.bytes() / std::max(s.devices, 1) / Arena::kPage * Arena::kPage;
}

Result<std::unique_ptr<GpuHost>> join_host(const Driver &d)
{
    if (d.settings.devices_file)
        return GpuHost::join(Fd(*d.settings.devices_file), d.settings.host, d.addresses());
    if (d.settings.shares) return GpuHost::join(d.settings.host, d.addresses());
    Fd file(memfd_create("rgpu-devices", MFD_CLOEXEC));
    if (!file) return error(ErrorKind::exhausted, "a file in memory: %s", strerror(errno));
    return GpuHost::join(std::move(file), d.settings.host, d.addresses());
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
        d.devices.push_back(
            new Device(*d.host, d.settings, static_cast<int>(d.devices.size()), i, uuids[i]));
    return d.devices.empty() ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}

}  // namespace

Device::Device(GpuHost &host, const Settings &s, int index, int host_index, CUuuid uuid)
    : index(index), host_index(host_index), uuid(uuid), name(s.name), total(s.memory),
      arena(host.base() + host_index * device_stride(host, s), device_stride(host, s), *this),
      primary(new Context(*this, true, 0, 3020)), default_pool(std::make_shared<Pool>(*this, true)),
      host_(host), pool_(default_pool)
{
    driver().pools.add(default_pool);
}

std::shared_ptr<Pool> Device::pool()
{
    std::lock_guard lock(mutex_);
    return pool_;
}

void Device::set_pool(std::shared_ptr<Pool> p)
{
    std::lock_guard lock(mutex_);
    pool_ = std::move(p);
}

Driver &driver()
{
    static auto *d = new Driver;
    return *d;
}

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

CUuuid make_uuid(const std::string &directory, int host_index)
{
    char real[PATH_MAX], machine[256] = "";
    gethostname(machine, sizeof machine - 1);
    if (!realpath(directory.c_str(), real)) snprintf(real, sizeof real, "%s", directory.c_str());
    const Digest digest = sha256("rgpu software GPU\n" + std::string(machine) + "\n" + real + "\n" +
                                 std::to_string(host_index));
    CUuuid uuid;
    memcpy(uuid.bytes, digest.data(), sizeof uuid.bytes);
    uuid.bytes[6] = (uuid.bytes[6] & 0x0f) |
                    static_cast<char>(0x80);  // RFC 9562: version 8, made our way
    uuid.bytes[8] = (uuid.bytes[8] & 0x3f) | static_cast<char>(0x80);
    return uuid;
}

}  // namespace rgpu::softgpu::driver
