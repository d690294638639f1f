// SPDX-License-Identifier: Apache-2.0
#include "softgpu/driver/state/device.h"

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>

#include "util/sha256.h"

namespace rgpu::softgpu::driver {

namespace {

uint64_t device_stride(const GpuHost &host, const Settings &s)
{
    return host.bytes() / std::max(s.devices, 1) / Arena::kPage * Arena::kPage;
}

}  // namespace

Device::Device(GpuHost &host, const Settings &s, int index, int host_index, CUuuid uuid)
    : index(index), host_index(host_index), uuid(uuid), name(s.name), total(s.memory),
      arena(host.base() + host_index * device_stride(host, s), device_stride(host, s), *this),
      host_(host)
{}

std::shared_ptr<Pool> Device::pool()
{
    std::lock_guard lock(mutex_);
    return pool_ ? pool_ : default_pool;
}

void Device::set_pool(std::shared_ptr<Pool> p)
{
    std::lock_guard lock(mutex_);
    pool_ = std::move(p);
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
