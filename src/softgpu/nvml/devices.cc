// SPDX-License-Identifier: Apache-2.0
#include "softgpu/nvml/devices.h"

#include <atomic>
#include <string>

#include <dlfcn.h>

#include "calls/nvml.h"

namespace rgpu::softgpu::nvml {

namespace {

constexpr int kDriverNotLoaded = 9;

std::atomic<int> users{0};

template <class F> bool look_up(void *library, const char *name, F &function)
{
    function = reinterpret_cast<F>(dlsym(library, name));
    return function != nullptr;
}

// Nothing where a symbol is missing: it is another driver than the software GPU's then.
std::optional<Driver> open()
{
    Dl_info self;
    static const char here = 0;
    if (!dladdr(&here, &self) || !self.dli_fname) return {};
    const std::string own = self.dli_fname;
    const size_t slash = own.rfind('/');
    const std::string folder = slash == own.npos ? "." : own.substr(0, slash);
    void *l = dlopen((folder + "/libcuda.so.1").c_str(), RTLD_NOW | RTLD_LOCAL);
    Driver d{};
    const bool all =
        l && look_up(l, "cuInit", d.init) && look_up(l, "cuDriverGetVersion", d.version) &&
        look_up(l, "cuDeviceGetCount", d.count) && look_up(l, "cuDeviceGetName", d.name) &&
        look_up(l, "cuDeviceGetUuid_v2", d.uuid) && look_up(l, "cuDeviceGetPCIBusId", d.address) &&
        look_up(l, "cuDeviceGetByPCIBusId", d.by_address) &&
        look_up(l, "cuDeviceGetAttribute", d.attribute) &&
        look_up(l, "cuDeviceTotalMem_v2", d.total_memory) &&
        look_up(l, "cuDeviceCanAccessPeer", d.can_access_peer) &&
        look_up(l, "rgpu_softgpu_memory_used", d.memory_used) &&
        look_up(l, "rgpu_softgpu_driver_release", d.release);
    return all ? std::optional(d) : std::nullopt;
}

const std::optional<Driver> &opened()
{
    static const std::optional<Driver> driver = open();
    return driver;
}

}  // namespace

const Driver &driver() { return *opened(); }

int init()
{
    if (!opened() || driver().init(0)) return kDriverNotLoaded;
    ++users;
    return calls::kNvmlSuccess;
}

int shutdown()
{
    int n = users;
    while (n && !users.compare_exchange_weak(n, n - 1)) {}
    return n ? calls::kNvmlSuccess : calls::kNvmlUninitialized;
}

bool initialised() { return users > 0; }

int device_count()
{
    int n = 0;
    return driver().count(&n) ? 0 : n;
}

std::optional<int> device_of(Handle handle)
{
    const auto number = reinterpret_cast<intptr_t>(handle);
    if (number < 1 || number > device_count()) return {};
    return static_cast<int>(number - 1);
}

int check(Handle handle)
{
    if (!initialised()) return calls::kNvmlUninitialized;
    return device_of(handle) ? calls::kNvmlSuccess : calls::kNvmlInvalidArgument;
}

}  // namespace rgpu::softgpu::nvml
