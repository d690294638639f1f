// SPDX-License-Identifier: Apache-2.0
// The NVML functions that can be answered for a remote GPU (ANSWER in calls/nvml.def). exports.cc
// makes the symbols from them.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "calls/cuda_api.h"
#include "nvml/answers.h"
#include "nvml/use.h"

namespace {

using namespace rgpu;
using nvml::Device;
using nvml::give;
using nvml::Pool;
using nvml::with;
using nvml::with_pool;
using wire::DeviceStatus;

// A number of the device's status, or NOT_SUPPORTED where the server does not know it.
template <class T>
nvmlReturn_t give_status(nvmlDevice_t handle, int64_t DeviceStatus::*field, T *to)
{
    return with(handle, [&](Device &d) -> nvmlReturn_t {
        if (!to) return NVML_ERROR_INVALID_ARGUMENT;
        const int64_t value = d.link->status(d.gpu.uuid).*field;
        return value == DeviceStatus::kUnknown ? NVML_ERROR_NOT_SUPPORTED : give(to, value);
    });
}

// A device attribute of the driver API.
template <class T> nvmlReturn_t give_attribute(nvmlDevice_t handle, CUdevice_attribute a, T *to)
{
    return with(handle, [&](Device &d) -> nvmlReturn_t {
        if (!to) return NVML_ERROR_INVALID_ARGUMENT;
        const auto *s = d.link->snapshot(d.gpu.uuid);
        if (!s) return NVML_ERROR_UNKNOWN;
        if (static_cast<size_t>(a) >= s->attributes.size() || s->attribute_status[a])
            return NVML_ERROR_NOT_SUPPORTED;
        return give(to, s->attributes[a]);
    });
}

nvmlReturn_t find(nvmlDevice_t *to, bool (*matches)(Device &, const char *), const char *key)
{
    return with_pool([&](Pool &p) -> nvmlReturn_t {
        if (!to || !key) return NVML_ERROR_INVALID_ARGUMENT;
        for (auto &d : p.devices)
            if (matches(*d, key))
                return *to = reinterpret_cast<nvmlDevice_t>(d.get()), NVML_SUCCESS;
        return NVML_ERROR_NOT_FOUND;
    });
}

// "00000000:3b:00.0" and "0000:3B:00.0" are the same.
bool same_bus(Device &d, const char *id)
{
    unsigned a[3] = {}, b[3] = {};
    return sscanf(d.gpu.pci.c_str(), "%x:%x:%x", a, a + 1, a + 2) == 3 &&
           sscanf(id, "%x:%x:%x", b, b + 1, b + 2) == 3 && !memcmp(a, b, sizeof a);
}

// The memory of the lease: its cap, which may have changed since the lease file was written, and
// what all its programs hold.
nvmlReturn_t memory(Device &d, unsigned long long &total, unsigned long long &used)
{
    const DeviceStatus s = d.link->status(d.gpu.uuid);
    total = s.memory_total > 0 ? static_cast<unsigned long long>(s.memory_total) : d.gpu.memory;
    if (!total || s.memory_used < 0) return NVML_ERROR_UNKNOWN;
    used = std::min(static_cast<unsigned long long>(s.memory_used), total);
    return NVML_SUCCESS;
}

nvmlReturn_t pci_info(nvmlDevice_t handle, nvmlPciInfo_t *info)
{
    return with(handle, [&](Device &d) -> nvmlReturn_t {
        if (!info) return NVML_ERROR_INVALID_ARGUMENT;
        *info = {};
        if (sscanf(d.gpu.pci.c_str(), "%x:%x:%x", &info->domain, &info->bus, &info->device) != 3)
            return NVML_ERROR_NOT_SUPPORTED;
        info->pciDeviceId = 0x000110de;  // as /sys has it (view/files.cc)
        info->pciSubSystemId = 0x000110de;
        snprintf(info->busId, sizeof info->busId, "%08X:%02X:%02X.0", info->domain, info->bus,
                 info->device);
        snprintf(info->busIdLegacy, sizeof info->busIdLegacy, "%04X:%02X:%02X.0", info->domain,
                 info->bus, info->device);
        return NVML_SUCCESS;
    });
}

nvmlDeviceArchitecture_t architecture(int major, int minor)
{
    switch (major) {
    case 3: return NVML_DEVICE_ARCH_KEPLER;
    case 5: return NVML_DEVICE_ARCH_MAXWELL;
    case 6: return NVML_DEVICE_ARCH_PASCAL;
    case 7: return minor < 5 ? NVML_DEVICE_ARCH_VOLTA : NVML_DEVICE_ARCH_TURING;
    case 8: return minor == 9 ? NVML_DEVICE_ARCH_ADA : NVML_DEVICE_ARCH_AMPERE;
    case 9: return NVML_DEVICE_ARCH_HOPPER;
    case 10:
    case 12: return NVML_DEVICE_ARCH_BLACKWELL;
    default: return NVML_DEVICE_ARCH_UNKNOWN;
    }
}

}  // namespace

namespace rgpu::nvml::answers {

// --- library and system

nvmlReturn_t nvmlInit_v2()
{
    return nvml::begin_use() ? NVML_SUCCESS : NVML_ERROR_DRIVER_NOT_LOADED;
}
nvmlReturn_t nvmlInit() { return answers::nvmlInit_v2(); }
nvmlReturn_t nvmlInitWithFlags(unsigned) { return answers::nvmlInit_v2(); }
nvmlReturn_t nvmlShutdown() { return nvml::end_use() ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED; }

const char *nvmlErrorString(nvmlReturn_t r)
{
    switch (r) {
    case NVML_SUCCESS: return "Success";
    case NVML_ERROR_UNINITIALIZED: return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT: return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED: return "Not Supported";
    case NVML_ERROR_NO_PERMISSION: return "Insufficient Permissions";
    case NVML_ERROR_NOT_FOUND: return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE: return "Insufficient Size";
    case NVML_ERROR_DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case NVML_ERROR_TIMEOUT: return "Timeout";
    case NVML_ERROR_FUNCTION_NOT_FOUND: return "Function Not Found";
    case NVML_ERROR_GPU_IS_LOST: return "GPU is lost";
    case NVML_ERROR_ARGUMENT_VERSION_MISMATCH: return "Argument Version Mismatch";
    default: return "Unknown Error";
    }
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *text, unsigned room)
{
    return with_pool([&](Pool &p) {
        const std::string release = p.links.empty() ? "" : p.links[0]->driver_release();
        return give_text(text, room, release.empty() ? RGPU_VERSION : release);
    });
}
nvmlReturn_t nvmlSystemGetNVMLVersion(char *text, unsigned room)
{
    return with_pool(
        [&](Pool &) { return give_text(text, room, NVML_API_VERSION_STR "." RGPU_VERSION); });
}
nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version)
{
    return with_pool([&](Pool &p) -> nvmlReturn_t {
        const int v = p.links.empty() ? 0 : p.links[0]->driver_version();
        return v ? give(version, v) : NVML_ERROR_UNKNOWN;
    });
}
nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    return answers::nvmlSystemGetCudaDriverVersion(version);
}
nvmlReturn_t nvmlSystemGetProcessName(unsigned pid, char *name, unsigned room)
{
    return with_pool([&](Pool &) -> nvmlReturn_t {
        char path[64], line[1024] = "";
        snprintf(path, sizeof path, "/proc/%u/cmdline", pid);
        FILE *f = fopen(path, "re");
        if (!f) return NVML_ERROR_NOT_FOUND;
        line[fread(line, 1, sizeof line - 1, f)] = 0;
        fclose(f);
        return give_text(name, room, line);
    });
}
nvmlReturn_t nvmlUnitGetCount(unsigned *count)
{
    return with_pool([&](Pool &) { return give(count, 0); });
}

// --- which devices there are

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count)
{
    return with_pool([&](Pool &p) { return give(count, p.devices.size()); });
}
nvmlReturn_t nvmlDeviceGetCount(unsigned *count) { return answers::nvmlDeviceGetCount_v2(count); }

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device)
{
    return with_pool([&](Pool &p) -> nvmlReturn_t {
        if (!device || index >= p.devices.size()) return NVML_ERROR_INVALID_ARGUMENT;
        *device = reinterpret_cast<nvmlDevice_t>(p.devices[index].get());
        return NVML_SUCCESS;
    });
}
nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t *device)
{
    return answers::nvmlDeviceGetHandleByIndex_v2(index, device);
}
nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
    return find(
        device, [](Device &d, const char *u) { return d.gpu.uuid == u; }, uuid);
}
nvmlReturn_t nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *device)
{
    const auto has = [](Device &d, const char *wanted) {
        char own[NVML_DEVICE_SERIAL_BUFFER_SIZE] = "";
        return !::nvmlDeviceGetSerial(reinterpret_cast<nvmlDevice_t>(&d), own, sizeof own) &&
               strcmp(own, wanted) == 0;
    };
    return find(device, has, serial);
}
nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *id, nvmlDevice_t *device)
{
    return find(device, same_bus, id);
}
nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *id, nvmlDevice_t *device)
{
    return find(device, same_bus, id);
}

// --- what a device is

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned *index)
{
    return with(device, [&](Device &d) { return give(index, d.index); });
}
nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned *minor)
{
    return answers::nvmlDeviceGetIndex(device, minor);
}
nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned room)
{
    return with(device, [&](Device &d) { return give_text(name, room, d.gpu.name); });
}
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned room)
{
    return with(device, [&](Device &d) { return give_text(uuid, room, d.gpu.uuid); });
}
nvmlReturn_t nvmlDeviceGetBrand(nvmlDevice_t device, nvmlBrandType_t *brand)
{
    return with(device, [&](Device &) { return give(brand, NVML_BRAND_UNKNOWN); });
}
nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *info)
{
    return pci_info(device, info);
}
nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_t *info)
{
    return pci_info(device, info);
}
nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_t *info)
{
    return pci_info(device, info);
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
    if (nvmlReturn_t r =
            give_attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, major))
        return r;
    return give_attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, minor);
}
nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t device, nvmlDeviceArchitecture_t *to)
{
    int major = 0, minor = 0;
    if (nvmlReturn_t r = answers::nvmlDeviceGetCudaComputeCapability(device, &major, &minor))
        return r;
    return give(to, architecture(major, minor));
}
nvmlReturn_t nvmlDeviceGetMemoryBusWidth(nvmlDevice_t device, unsigned *bits)
{
    return give_attribute(device, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, bits);
}
nvmlReturn_t nvmlDeviceGetMultiGpuBoard(nvmlDevice_t device, unsigned *several)
{
    return with(device, [&](Device &) { return give(several, 0); });
}
nvmlReturn_t nvmlDeviceOnSameBoard(nvmlDevice_t a, nvmlDevice_t b, int *same)
{
    return with(a, [&](Device &) { return with(b, [&](Device &) { return give(same, a == b); }); });
}
nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device, nvmlComputeMode_t *mode)
{
    return give_attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, mode);
}
nvmlReturn_t nvmlDeviceGetDisplayMode(nvmlDevice_t device, nvmlEnableState_t *on)
{
    return with(device, [&](Device &) { return give(on, NVML_FEATURE_DISABLED); });
}
nvmlReturn_t nvmlDeviceGetDisplayActive(nvmlDevice_t device, nvmlEnableState_t *on)
{
    return answers::nvmlDeviceGetDisplayMode(device, on);
}
nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t device, nvmlEnableState_t *on)
{
    return with(device, [&](Device &) { return give(on, NVML_FEATURE_ENABLED); });
}
nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned *mhz)
{
    const bool memory = type == NVML_CLOCK_MEM;
    if (nvmlReturn_t r = give_attribute(
            device, memory ? CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE : CU_DEVICE_ATTRIBUTE_CLOCK_RATE,
            mhz))
        return r;
    *mhz /= 1000;  // from kHz
    return NVML_SUCCESS;
}

// --- instances of a GPU (MIG): a lease has none

nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned *is)
{
    return with(device, [&](Device &) { return give(is, 0); });
}
nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned, nvmlDevice_t *to)
{
    return with(device, [&](Device &) -> nvmlReturn_t {
        return to ? NVML_ERROR_NOT_FOUND : NVML_ERROR_INVALID_ARGUMENT;
    });
}

// --- how it stands

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *to)
{
    return with(device, [&](Device &d) -> nvmlReturn_t {
        if (!to) return NVML_ERROR_INVALID_ARGUMENT;
        unsigned long long total = 0, used = 0;
        if (nvmlReturn_t r = memory(d, total, used)) return r;
        *to = {total, total - used, used};
        return NVML_SUCCESS;
    });
}
nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *to)
{
    return with(device, [&](Device &d) -> nvmlReturn_t {
        if (!to) return NVML_ERROR_INVALID_ARGUMENT;
        if (to->version != nvmlMemory_v2) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
        unsigned long long total = 0, used = 0;
        if (nvmlReturn_t r = memory(d, total, used)) return r;
        *to = {nvmlMemory_v2, total, 0, total - used, used};
        return NVML_SUCCESS;
    });
}
nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *to)
{
    return with(device, [&](Device &d) -> nvmlReturn_t {
        if (!to) return NVML_ERROR_INVALID_ARGUMENT;
        const DeviceStatus s = d.link->status(d.gpu.uuid);
        if (s.gpu_busy < 0) return NVML_ERROR_NOT_SUPPORTED;
        *to = {static_cast<unsigned>(s.gpu_busy),
               static_cast<unsigned>(std::max<int64_t>(s.memory_busy, 0))};
        return NVML_SUCCESS;
    });
}
nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t,
                                      unsigned *celsius)
{
    return give_status(device, &DeviceStatus::temperature, celsius);
}
nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t *to)
{
    if (!to) return NVML_ERROR_INVALID_ARGUMENT;
    return give_status(device, &DeviceStatus::temperature, &to->temperature);
}
nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned *milliwatts)
{
    return give_status(device, &DeviceStatus::power, milliwatts);
}
nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned *milliwatts)
{
    return give_status(device, &DeviceStatus::power_limit, milliwatts);
}
nvmlReturn_t nvmlDeviceGetPowerManagementLimit(nvmlDevice_t device, unsigned *milliwatts)
{
    return give_status(device, &DeviceStatus::power_limit, milliwatts);
}
nvmlReturn_t nvmlDeviceGetFanSpeed(nvmlDevice_t device, unsigned *percent)
{
    return give_status(device, &DeviceStatus::fan, percent);
}
nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned *mhz)
{
    return give_status(
        device, type == NVML_CLOCK_MEM ? &DeviceStatus::memory_clock : &DeviceStatus::sm_clock,
        mhz);
}
nvmlReturn_t nvmlDeviceGetPerformanceState(nvmlDevice_t device, nvmlPstates_t *state)
{
    return give_status(device, &DeviceStatus::performance_state, state);
}

}  // namespace rgpu::nvml::answers
