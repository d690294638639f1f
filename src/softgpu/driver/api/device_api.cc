// SPDX-License-Identifier: Apache-2.0
// Devices: CUDA Driver API, "Device Management", "Peer Context Memory Access" and what says who
// they are.
#include <cstdio>
#include <cstring>

#include "softgpu/driver/api/export.h"
#include "softgpu/driver/state/attributes.h"
#include "softgpu/driver/state/driver.h"
#include "softgpu/driver/state/pool.h"

namespace rgpu::softgpu::driver {

namespace {

CUresult device_count(int *count)
{
    if (!count) return CUDA_ERROR_INVALID_VALUE;
    *count = static_cast<int>(driver().devices.size());
    return CUDA_SUCCESS;
}

CUresult device_get(CUdevice *device, int ordinal)
{
    if (!device) return CUDA_ERROR_INVALID_VALUE;
    if (!find_device(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult device_name(char *name, int room, CUdevice d)
{
    Device *device = find_device(d);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    if (!name || room <= 0) return CUDA_ERROR_INVALID_VALUE;
    snprintf(name, room, "%s", device->name.c_str());
    return CUDA_SUCCESS;
}

CUresult device_uuid(CUuuid *uuid, CUdevice d)
{
    Device *device = find_device(d);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    if (!uuid) return CUDA_ERROR_INVALID_VALUE;
    *uuid = device->uuid;
    return CUDA_SUCCESS;
}

CUresult device_total_memory(size_t *bytes, CUdevice d)
{
    Device *device = find_device(d);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    if (!bytes) return CUDA_ERROR_INVALID_VALUE;
    *bytes = device->total;
    return CUDA_SUCCESS;
}

CUresult get_attribute(int *value, CUdevice_attribute which, CUdevice d)
{
    Device *device = find_device(d);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    return value ? device_attribute(*device, which, *value) : CUDA_ERROR_INVALID_VALUE;
}

CUresult compute_capability(int *major, int *minor, CUdevice d)
{
    if (!find_device(d)) return CUDA_ERROR_INVALID_DEVICE;
    if (!major || !minor) return CUDA_ERROR_INVALID_VALUE;
    *major = driver().settings.major;
    *minor = driver().settings.minor;
    return CUDA_SUCCESS;
}

CUresult properties(CUdevprop *p, CUdevice d)
{
    Device *device = find_device(d);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    const auto get = [&](CUdevice_attribute which) {
        int value = 0;
        device_attribute(*device, which, value);
        return value;
    };
    *p = {};
    p->maxThreadsPerBlock = get(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    for (int i = 0; i < 3; i++) {
        p->maxThreadsDim[i] =
            get(static_cast<CUdevice_attribute>(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + i));
        p->maxGridSize[i] =
            get(static_cast<CUdevice_attribute>(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + i));
    }
    p->sharedMemPerBlock = get(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
    p->totalConstantMemory = get(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY);
    p->SIMDWidth = get(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
    p->memPitch = get(CU_DEVICE_ATTRIBUTE_MAX_PITCH);
    p->regsPerBlock = get(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
    p->clockRate = get(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
    p->textureAlign = get(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT);
    return CUDA_SUCCESS;
}

// --- PCI names: 0000:BB:00.0

CUresult pci_bus_id(char *name, int room, CUdevice d)
{
    Device *device = find_device(d);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    if (!name || room < 13) return CUDA_ERROR_INVALID_VALUE;
    int bus;
    device_attribute(*device, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, bus);
    snprintf(name, room, "0000:%02x:00.0", static_cast<unsigned>(bus));
    return CUDA_SUCCESS;
}

CUresult by_pci_bus_id(CUdevice *found, const char *name)
{
    if (!found || !name) return CUDA_ERROR_INVALID_VALUE;
    unsigned domain = 0, bus, slot;
    if (sscanf(name, "%x:%x:%x", &domain, &bus, &slot) != 3) {
        domain = 0;
        if (sscanf(name, "%x:%x", &bus, &slot) != 2) return CUDA_ERROR_INVALID_VALUE;
    }
    for (Device *device : driver().devices) {
        int its_bus;
        device_attribute(*device, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, its_bus);
        if (domain || slot || static_cast<int>(bus) != its_bus) continue;
        *found = device->index;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_DEVICE;
}

// --- peers: the devices share one memory, so each reaches every other

CUresult can_access_peer(int *can, CUdevice d, CUdevice peer)
{
    if (!find_device(d) || !find_device(peer)) return CUDA_ERROR_INVALID_DEVICE;
    if (!can) return CUDA_ERROR_INVALID_VALUE;
    *can = d != peer;
    return CUDA_SUCCESS;
}

CUresult p2p_attribute(int *value, CUdevice_P2PAttribute which, CUdevice source,
                       CUdevice destination)
{
    if (!find_device(source) || !find_device(destination) || source == destination)
        return CUDA_ERROR_INVALID_DEVICE;
    if (!value) return CUDA_ERROR_INVALID_VALUE;
    switch (which) {
    case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK: *value = 0; return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
    case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED: *value = 1; return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED:
    case CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED:
        *value = 0;
        return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
}

// --- memory pools

CUresult default_pool(CUmemoryPool *pool, CUdevice d)
{
    Device *device = find_device(d);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    if (!pool) return CUDA_ERROR_INVALID_VALUE;
    *pool = reinterpret_cast<CUmemoryPool>(device->default_pool.get());
    return CUDA_SUCCESS;
}

CUresult get_pool(CUmemoryPool *pool, CUdevice d)
{
    Device *device = find_device(d);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    if (!pool) return CUDA_ERROR_INVALID_VALUE;
    *pool = reinterpret_cast<CUmemoryPool>(device->pool().get());
    return CUDA_SUCCESS;
}

CUresult set_pool(CUdevice d, CUmemoryPool handle)
{
    Device *device = find_device(d);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    auto pool = driver().pools.find(handle);
    if (!pool || &pool->device != device) return CUDA_ERROR_INVALID_VALUE;
    if (pool->is_imported()) return CUDA_ERROR_INVALID_VALUE;
    device->set_pool(pool);
    return CUDA_SUCCESS;
}

RGPU_EXPORT(cuDeviceGetCount, device_count)
RGPU_EXPORT(cuDeviceGet, device_get)
RGPU_EXPORT(cuDeviceGetName, device_name)
RGPU_EXPORT(cuDeviceGetUuid, device_uuid)
RGPU_EXPORT(cuDeviceGetUuid_v2, device_uuid)
RGPU_EXPORT(cuDeviceTotalMem_v2, device_total_memory)
RGPU_EXPORT(cuDeviceGetAttribute, get_attribute)
RGPU_EXPORT(cuDeviceComputeCapability, compute_capability)
RGPU_EXPORT(cuDeviceGetProperties, properties)
RGPU_EXPORT(cuDeviceGetPCIBusId, pci_bus_id)
RGPU_EXPORT(cuDeviceGetByPCIBusId, by_pci_bus_id)
RGPU_EXPORT(cuDeviceCanAccessPeer, can_access_peer)
RGPU_EXPORT(cuDeviceGetP2PAttribute, p2p_attribute)
RGPU_EXPORT(cuDeviceGetDefaultMemPool, default_pool)
RGPU_EXPORT(cuDeviceGetMemPool, get_pool)
RGPU_EXPORT(cuDeviceSetMemPool, set_pool)

}  // namespace

}  // namespace rgpu::softgpu::driver
