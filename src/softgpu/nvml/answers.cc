// SPDX-License-Identifier: Apache-2.0
// What NVML knows of a software GPU: which devices there are, what they are, and that two of them
// are peers. What NCCL asks, and more. The rest is in exports.cc.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include "calls/nvml.h"
#include "calls/uuid.h"
#include "softgpu/nvml/devices.h"

#define EXPORT extern "C" [[gnu::visibility("default")]]

using namespace rgpu::calls;
using namespace rgpu::softgpu::nvml;

namespace {

// Does it for the device, where there is one and a place for the answer.
template <class Out, class Function>
int of_device(Handle handle, Out *out, const Function &function)
{
    if (const int bad = check(handle)) return bad;
    if (!out) return kNvmlInvalidArgument;
    return function(*device_of(handle), *out) ? kNvmlUnknown : kNvmlSuccess;
}

int give_text(char *out, unsigned room, const char *text)
{
    if (!out) return kNvmlInvalidArgument;
    if (strlen(text) >= room) return kNvmlInsufficientSize;
    strcpy(out, text);
    return kNvmlSuccess;
}

// Empty where the driver does not tell it.
std::string uuid_of(int device)
{
    CUuuid uuid;
    return driver().uuid(&uuid, device) ? "" : uuid_text(uuid);
}

template <class Matches> int find(Handle *out, const Matches &matches)
{
    if (!initialised()) return kNvmlUninitialized;
    if (!out) return kNvmlInvalidArgument;
    for (int device = 0; device < device_count(); ++device) {
        if (!matches(device)) continue;
        *out = handle_of(device);
        return kNvmlSuccess;
    }
    return kNvmlNotFound;
}

// nvmlPciInfo_t.
struct PciInfo {
    char legacy[16];
    uint32_t domain, bus, device, id, subsystem;
    char text[32];
};
static_assert(sizeof(PciInfo) == 68);

// nvmlFieldValue_t.
struct FieldValue {
    uint32_t field, scope;
    int64_t time, latency;
    uint32_t type, result;
    uint64_t value;
};
static_assert(sizeof(FieldValue) == 40);

// nvmlMemory_t and nvmlMemory_v2_t.
struct Memory {
    uint64_t total, free, used;
};
struct Memory2 {
    uint32_t version;
    uint64_t total, reserved, free, used;
};

}  // namespace

EXPORT int nvmlInit_v2() { return init(); }
EXPORT int nvmlInit() { return init(); }
EXPORT int nvmlInitWithFlags(unsigned) { return init(); }
EXPORT int nvmlShutdown() { return shutdown(); }

EXPORT const char *nvmlErrorString(int result)
{
    switch (result) {
    case kNvmlSuccess: return "Success";
    case kNvmlUninitialized: return "Uninitialized";
    case kNvmlInvalidArgument: return "Invalid Argument";
    case kNvmlNotSupported: return "Not Supported";
    case kNvmlNoPermission: return "Insufficient Permissions";
    case kNvmlNotFound: return "Not Found";
    case kNvmlInsufficientSize: return "Insufficient Size";
    default: return "Unknown Error";
    }
}

EXPORT int nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    if (!initialised()) return kNvmlUninitialized;
    if (!version) return kNvmlInvalidArgument;
    return driver().version(version) ? kNvmlUnknown : kNvmlSuccess;
}
EXPORT int nvmlSystemGetCudaDriverVersion(int *version)
{
    return nvmlSystemGetCudaDriverVersion_v2(version);
}
EXPORT int nvmlSystemGetDriverVersion(char *text, unsigned room)
{
    return initialised() ? give_text(text, room, driver().release()) : kNvmlUninitialized;
}

EXPORT int nvmlDeviceGetCount_v2(unsigned *count)
{
    if (!initialised()) return kNvmlUninitialized;
    if (!count) return kNvmlInvalidArgument;
    *count = static_cast<unsigned>(device_count());
    return kNvmlSuccess;
}
EXPORT int nvmlDeviceGetCount(unsigned *count) { return nvmlDeviceGetCount_v2(count); }

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, Handle *out)
{
    const int found = find(out, [&](int device) { return static_cast<unsigned>(device) == index; });
    return found == kNvmlNotFound ? kNvmlInvalidArgument : found;
}
EXPORT int nvmlDeviceGetHandleByIndex(unsigned index, Handle *out)
{
    return nvmlDeviceGetHandleByIndex_v2(index, out);
}
// In any of the forms that cuDeviceGetByPCIBusId takes.
EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *text, Handle *out)
{
    int wanted = -1;
    if (!text) return kNvmlInvalidArgument;
    if (initialised() && driver().by_address(&wanted, text)) return kNvmlNotFound;
    return find(out, [&](int device) { return device == wanted; });
}
EXPORT int nvmlDeviceGetHandleByPciBusId(const char *text, Handle *out)
{
    return nvmlDeviceGetHandleByPciBusId_v2(text, out);
}
EXPORT int nvmlDeviceGetHandleByUUID(const char *text, Handle *out)
{
    if (!text) return kNvmlInvalidArgument;
    return find(out, [&](int device) {
        const std::string uuid = uuid_of(device);
        return !uuid.empty() && uuid == text;
    });
}

EXPORT int nvmlDeviceGetIndex(Handle handle, unsigned *out)
{
    return of_device(handle, out, [](int device, unsigned &index) {
        index = static_cast<unsigned>(device);
        return 0;
    });
}
EXPORT int nvmlDeviceGetName(Handle handle, char *out, unsigned room)
{
    char name[96] = "";
    if (const int bad = check(handle)) return bad;
    if (driver().name(name, sizeof name, *device_of(handle))) return kNvmlUnknown;
    return give_text(out, room, name);
}
EXPORT int nvmlDeviceGetUUID(Handle handle, char *out, unsigned room)
{
    if (const int bad = check(handle)) return bad;
    const std::string uuid = uuid_of(*device_of(handle));
    return uuid.empty() ? int{kNvmlUnknown} : give_text(out, room, uuid.c_str());
}

EXPORT int nvmlDeviceGetPciInfo_v3(Handle handle, PciInfo *out)
{
    return of_device(handle, out, [](int device, PciInfo &pci) {
        char text[16] = "";
        pci = {};
        if (driver().address(text, sizeof text, device)) return 1;
        if (sscanf(text, "%x:%x:%x", &pci.domain, &pci.bus, &pci.device) != 3) return 1;
        snprintf(pci.legacy, sizeof pci.legacy, "%s", text);
        snprintf(pci.text, sizeof pci.text, "%08X:%02X:%02X.0", pci.domain, pci.bus, pci.device);
        return 0;
    });
}
EXPORT int nvmlDeviceGetPciInfo_v2(Handle handle, PciInfo *out)
{
    return nvmlDeviceGetPciInfo_v3(handle, out);
}

EXPORT int nvmlDeviceGetCudaComputeCapability(Handle handle, int *major, int *minor)
{
    if (!minor) return kNvmlInvalidArgument;
    return of_device(handle, major, [&](int device, int &out) {
        return driver().attribute(&out, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device) ||
               driver().attribute(minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
    });
}

EXPORT int nvmlDeviceGetMemoryInfo(Handle handle, Memory *out)
{
    return of_device(handle, out, [](int device, Memory &memory) {
        size_t total = 0;
        if (driver().total_memory(&total, device)) return 1;
        memory.total = total;
        memory.used = std::min<uint64_t>(total, driver().memory_used(device));
        memory.free = total - memory.used;
        return 0;
    });
}
EXPORT int nvmlDeviceGetMemoryInfo_v2(Handle handle, Memory2 *out)
{
    Memory memory;
    const int result = nvmlDeviceGetMemoryInfo(handle, out ? &memory : nullptr);
    if (!result) out->total = memory.total, out->free = memory.free, out->used = memory.used;
    if (!result) out->reserved = 0;
    return result;
}

// Software GPUs of one host reach each other's memory in every way but NVLink.
EXPORT int nvmlDeviceGetP2PStatus(Handle a, Handle b, int capability, unsigned *out)
{
    constexpr int kNvlink = 2;
    constexpr unsigned kOk = 0, kChipset = 1;
    if (const int bad = check(b)) return bad;
    return of_device(a, out, [&](int device, unsigned &status) {
        int can = device == *device_of(b);
        if (!can && driver().can_access_peer(&can, device, *device_of(b))) return 1;
        status = can && capability != kNvlink ? kOk : kChipset;
        return 0;
    });
}

EXPORT int nvmlDeviceGetTopologyCommonAncestor(Handle a, Handle b, unsigned *out)
{
    constexpr unsigned kInternal = 0, kNode = 40;
    if (const int bad = check(b)) return bad;
    return of_device(a, out, [&](int, unsigned &level) {
        level = a == b ? kInternal : kNode;
        return 0;
    });
}

// None of them is known: each says so.
EXPORT int nvmlDeviceGetFieldValues(Handle handle, int count, FieldValue *values)
{
    return of_device(handle, values, [&](int, FieldValue &) {
        for (int i = 0; i < count; ++i) values[i].result = kNvmlNotSupported;
        return 0;
    });
}
