// SPDX-License-Identifier: Apache-2.0
// Pointer attributes, from what the client knows of its memory.
#include <cstring>

#include "interpose/mirror/mirror.h"
#include "interpose/state/process.h"
#include "interpose/state/ranges.h"
#include "interpose/stub/by_hand.h"

namespace rgpu::interpose::own {

namespace {

// One pointer, as much as is known about it.
struct Known {
    bool device = false, host = false;
    DeviceRange in_device;
    HostRange in_host;
    CUdeviceptr address = 0;

    bool any() const { return device || host; }
    HandleId context() const { return device ? in_device.context : in_host.context; }
    CUdevice ordinal() const { return device ? in_device.device : in_host.device; }
    CUdeviceptr base() const { return device ? in_device.base : in_host.base; }
    size_t bytes() const { return device ? in_device.bytes : in_host.bytes; }
    bool sync_memops() const { return device ? in_device.sync_memops : in_host.sync_memops; }
};

Known look_at(CUdeviceptr p)
{
    Known k;
    k.address = p;
    if (auto d = find_device(p)) {
        k.device = true;
        k.in_device = *d;
    } else if (auto h = find_host(reinterpret_cast<void *>(p))) {
        k.host = true;
        k.in_host = *h;
    }
    return k;
}

// Kernels' address of host memory. To ask for it is no sign yet that a kernel will use it.
CUresult device_pointer(const Known &k, CUdeviceptr &out)
{
    CUdeviceptr base = k.in_host.base;
    if (!k.in_host.allocated)
        if (CUresult r = mirror::mirror_registered(k.in_host, base)) return r;
    out = base + (k.address - k.in_host.base);
    return mirror::find(base) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE, since CUDA 12.8; the last one that there is.
constexpr auto kHardwareDecompress = static_cast<CUpointer_attribute>(21);

template <class T> CUresult put(void *to, T value)
{
    memcpy(to, &value, sizeof(T));
    return CUDA_SUCCESS;
}

// In which forms other processes may be given the memory: cuMemCreate was told for what is mapped.
// Other memory has none, but for pools', of which the client does not know.
unsigned long long handle_types(const Known &k)
{
    if (!k.device || !k.in_device.mapped) return 0;
    CUmemGenericAllocationHandle memory = 0;
    CUmemAllocationProp made{};
    if (own::cuMemRetainAllocationHandle(&memory, reinterpret_cast<void *>(k.address))) return 0;
    const CUresult r = own::cuMemGetAllocationPropertiesFromHandle(&made, memory);
    own::cuMemRelease(memory);
    return r ? 0 : static_cast<unsigned long long>(made.requestedHandleTypes);
}

CUresult attribute(void *to, CUpointer_attribute which, const Known &k)
{
    switch (which) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        return put(to, Handles::get().handle<CUcontext>(k.context()));
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        return put(to, k.device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        if (!k.device) {
            CUdeviceptr device = 0;
            CUresult r = device_pointer(k, device);
            return r ? r : put(to, device);
        }
        return put(to, k.address);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        return k.host || k.in_device.managed ? put(to, reinterpret_cast<void *>(k.address))
                                             : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        return put(to, k.device ? k.in_device.buffer_id : k.in_host.base);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: return put(to, unsigned{k.in_device.managed});
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: return put(to, k.ordinal());
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE: return put(to, 0u);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: return put(to, k.base());
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: return put(to, k.bytes());
    case CU_POINTER_ATTRIBUTE_MAPPED: return put(to, 1u);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES: return put(to, handle_types(k));
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE: return put(to, 0u);
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: return put(to, unsigned{k.sync_memops()});
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        return put(to, CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: return put(to, static_cast<CUmemoryPool>(nullptr));
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE: return put(to, k.bytes());
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR: return put(to, k.base());
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        return put(to, k.device ? k.in_device.buffer_id : k.in_host.base);
    default:
        if (which == kHardwareDecompress) return put(to, 0u);
        return CUDA_ERROR_INVALID_VALUE;
    }
}

// What cuPointerGetAttributes writes for a pointer that CUDA does not know (its description).
size_t size_of(CUpointer_attribute which)
{
    switch (which) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
    // CUDA calls these boolean; cudart gives room for four bytes, and reads them all.
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case kHardwareDecompress: return 4;
    default: return 8;
    }
}

}  // namespace

CUresult cuPointerGetAttribute(void *to, CUpointer_attribute which, CUdeviceptr p)
{
    if (!session()) return not_ready();
    Known k = look_at(p);
    if (!to || !k.any()) return CUDA_ERROR_INVALID_VALUE;
    return attribute(to, which, k);
}

CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute which, CUdeviceptr p)
{
    if (!session()) return not_ready();
    if (!value || which != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) return CUDA_ERROR_INVALID_VALUE;
    // Synchronous copies are synchronous here in any case: the flag is only kept.
    unsigned set;
    memcpy(&set, value, sizeof set);
    return note_sync_memops(p, set) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute *which, void **to,
                                CUdeviceptr p)
{
    if (!session()) return not_ready();
    if (!which || !to || !count) return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++)
        if (!to[i] || which[i] < CU_POINTER_ATTRIBUTE_CONTEXT || which[i] > kHardwareDecompress)
            return CUDA_ERROR_INVALID_VALUE;
    Known k = look_at(p);
    for (unsigned i = 0; i < count; i++) {
        memset(to[i], 0, size_of(which[i]));
        if (which[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL && !k.any())
            put(to[i], -2);  // CU_DEVICE_INVALID
        if (k.any()) attribute(to[i], which[i], k);
    }
    return CUDA_SUCCESS;
}

}  // namespace rgpu::interpose::own
