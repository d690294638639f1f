// SPDX-License-Identifier: Apache-2.0
#include "worker/driver/device_meter.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <vector>

namespace rgpu::worker {

namespace {

// What is used of nvml.h, which is not needed to build.
using NvmlDevice = struct nvmlDevice_st *;
struct NvmlMemory {
    unsigned long long total, free, used;
};

// nvmlProcessInfo_v2_t, which the calls named _v2 and _v3 fill in.
struct NvmlProcess {
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
};

struct NvmlBusy {
    unsigned gpu, memory;
};

struct Nvml {
    int (*by_pci)(const char *, NvmlDevice *) = nullptr;
    int (*memory)(NvmlDevice, NvmlMemory *) = nullptr;
    int (*busy)(NvmlDevice, NvmlBusy *) = nullptr;
    int (*processes)(NvmlDevice, unsigned *, NvmlProcess *) = nullptr;
    void *library = nullptr;

    Nvml()
    {
        library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
        auto init = library ? reinterpret_cast<int (*)()>(dlsym(library, "nvmlInit_v2")) : nullptr;
        if (!init || init() != 0) return;
        memory = reinterpret_cast<decltype(memory)>(dlsym(library, "nvmlDeviceGetMemoryInfo"));
        busy = reinterpret_cast<decltype(busy)>(dlsym(library, "nvmlDeviceGetUtilizationRates"));
        for (const char *name :
             {"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"})
            if (!processes) processes = reinterpret_cast<decltype(processes)>(dlsym(library, name));
        by_pci =
            reinterpret_cast<decltype(by_pci)>(dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2"));
    }
};

const Nvml &nvml()
{
    static const Nvml n;
    return n;
}

NvmlDevice find(const Driver &driver, int device)
{
    char pci[32] = "";
    NvmlDevice handle = nullptr;
    if (driver.symbol(kSoftwareMark) || !nvml().by_pci) return nullptr;
    if (driver.call<CallId::cuDeviceGetPCIBusId>()(pci, sizeof pci, device) ||
        nvml().by_pci(pci, &handle) != 0)
        return nullptr;
    return handle;
}

}  // namespace

void *nvml_device(const Driver &driver, int device) { return find(driver, device); }

void *nvml_function(const char *name)
{
    return nvml().library ? dlsym(nvml().library, name) : nullptr;
}

std::optional<uint64_t> device_memory_in_use(const Driver &driver, int device)
{
    NvmlDevice handle = find(driver, device);
    NvmlMemory memory{};
    if (!handle || !nvml().memory || nvml().memory(handle, &memory) != 0) return std::nullopt;
    return memory.total - memory.free;
}

std::optional<uint64_t> device_memory_of_process(const Driver &driver, int device)
{
    static const auto software =
        reinterpret_cast<uint64_t (*)(int)>(driver.symbol("rgpu_softgpu_memory_held"));
    if (software) return software(device);
    NvmlDevice handle = find(driver, device);
    if (!handle || !nvml().processes) return std::nullopt;
    // Another process may start between two calls: there is room for more than there were.
    constexpr int kInsufficientSize = 7;
    std::vector<NvmlProcess> all(64);
    unsigned count = 64;
    int r = nvml().processes(handle, &count, all.data());
    if (r == kInsufficientSize && count < (1u << 16)) {
        all.resize(count *= 2);
        r = nvml().processes(handle, &count, all.data());
    }
    if (r != 0) return std::nullopt;
    uint64_t sum = 0;
    bool listed = false;
    for (unsigned i = 0; i < count && i < all.size(); i++) {
        if (all[i].pid != static_cast<unsigned>(getpid())) continue;
        if (all[i].used == ~0ull) return std::nullopt;  // NVML_VALUE_NOT_AVAILABLE
        listed = true;
        sum += all[i].used;
    }
    return listed ? std::optional<uint64_t>(sum) : std::nullopt;
}

void meter_device(const Driver &driver, int device, wire::DeviceStatus &s)
{
    NvmlDevice handle = find(driver, device);
    if (!handle) return;
    NvmlBusy busy{};
    if (nvml().busy && nvml().busy(handle, &busy) == 0)
        s.gpu_busy = busy.gpu, s.memory_busy = busy.memory;
    auto one = [&](const char *name, int64_t &to) {
        unsigned value = 0;
        auto f = reinterpret_cast<int (*)(NvmlDevice, unsigned *)>(dlsym(nvml().library, name));
        if (f && f(handle, &value) == 0) to = value;
    };
    auto of = [&](const char *name, int which, int64_t &to) {
        unsigned value = 0;
        auto f =
            reinterpret_cast<int (*)(NvmlDevice, int, unsigned *)>(dlsym(nvml().library, name));
        if (f && f(handle, which, &value) == 0) to = value;
    };
    of("nvmlDeviceGetTemperature", 0, s.temperature);  // of the GPU itself
    one("nvmlDeviceGetPowerUsage", s.power);
    one("nvmlDeviceGetEnforcedPowerLimit", s.power_limit);
    of("nvmlDeviceGetClockInfo", 1, s.sm_clock);
    of("nvmlDeviceGetClockInfo", 2, s.memory_clock);
    one("nvmlDeviceGetFanSpeed", s.fan);
    one("nvmlDeviceGetPerformanceState", s.performance_state);
}

std::string driver_release(const Driver &driver)
{
    if (auto software =
            reinterpret_cast<const char *(*)()>(driver.symbol("rgpu_softgpu_driver_release")))
        return software();
    char text[96] = "";
    void *library = driver.symbol(kSoftwareMark) ? nullptr : nvml().library;
    auto get = library ? reinterpret_cast<int (*)(char *, unsigned)>(
                             dlsym(library, "nvmlSystemGetDriverVersion"))
                       : nullptr;
    return get && get(text, sizeof text) == 0 ? text : "";
}

}  // namespace rgpu::worker
