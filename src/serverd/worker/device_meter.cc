#include "serverd/worker/device_meter.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstring>

namespace rgpu::worker {

namespace {

// What is used of nvml.h, which is not needed to build.
using NvmlDevice = struct nvmlDevice_st *;
struct NvmlMemory {
    unsigned long long total, free, used;
};

struct Nvml {
    int (*by_pci)(const char *, NvmlDevice *) = nullptr;
    int (*memory)(NvmlDevice, NvmlMemory *) = nullptr;

    Nvml()
    {
        void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
        auto init = library ? reinterpret_cast<int (*)()>(dlsym(library, "nvmlInit_v2")) : nullptr;
        if (!init || init() != 0) return;
        memory = reinterpret_cast<decltype(memory)>(dlsym(library, "nvmlDeviceGetMemoryInfo"));
        by_pci = reinterpret_cast<decltype(by_pci)>(dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2"));
    }
};

}  // namespace

std::optional<uint64_t> device_memory_in_use(const Driver &driver, int device)
{
    if (driver.symbol(kSoftwareMark)) return std::nullopt;
    static const Nvml nvml;
    char pci[32] = "";
    NvmlDevice handle = nullptr;
    NvmlMemory memory{};
    if (!nvml.memory || !nvml.by_pci || driver.call<CallId::cuDeviceGetPCIBusId>()(pci, sizeof pci, device) ||
        nvml.by_pci(pci, &handle) != 0 || nvml.memory(handle, &memory) != 0)
        return std::nullopt;
    return memory.total - memory.free;
}

}  // namespace rgpu::worker
