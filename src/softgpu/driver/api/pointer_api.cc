// SPDX-License-Identifier: Apache-2.0
// What an address is: CUDA Driver API, "Unified Addressing".
#include <cstring>

#include "softgpu/driver/api/export.h"
#include "softgpu/driver/api/virtual_memory.h"
#include "softgpu/driver/state/context.h"
#include "softgpu/driver/state/driver.h"
#include "softgpu/driver/state/memory.h"
#include "softgpu/driver/state/pool.h"

namespace rgpu::softgpu::driver {

namespace {

template <class T> CUresult store(void *data, T value)
{
    memcpy(data, &value, sizeof value);
    return CUDA_SUCCESS;
}

// In which forms other processes may be given what is there.
unsigned long long handle_types(uint64_t address, const Range &r)
{
    if (r.memory == Memory::mapped) return mapped_handle_types(address);
    return r.pool && r.pool->file() ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : 0;
}

CUresult known(void *data, CUpointer_attribute which, CUdeviceptr address, const Range &r)
{
    const bool managed = r.memory == Memory::managed;
    const bool host = !r.on_device();
    switch (which) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        return store<CUcontext>(data, r.context ? r.context->handle() : nullptr);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        return store<unsigned>(data, host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: return store<CUdeviceptr>(data, address);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (!host && !managed) return CUDA_ERROR_INVALID_VALUE;
        return store<CUdeviceptr>(data, address);
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: return store<unsigned>(data, r.sync_memops);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID: return store<unsigned long long>(data, r.id);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: return store<unsigned>(data, managed);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: return store<int>(data, r.device);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        return store<unsigned>(data, r.memory == Memory::device && !r.pool);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: return store<CUdeviceptr>(data, r.base);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: return store<size_t>(data, r.bytes);
    case CU_POINTER_ATTRIBUTE_MAPPED: return store<unsigned>(data, 1);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        return store<unsigned long long>(data, handle_types(address, r));
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE: return store<unsigned>(data, 0);
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        return store<unsigned>(data, r.writable ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE
                                                : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        return store<CUmemoryPool>(data, reinterpret_cast<CUmemoryPool>(r.pool.get()));
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE: return store<size_t>(data, r.bytes);
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR: return store<CUdeviceptr>(data, r.base);
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID: return store<unsigned long long>(data, r.id);
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE: return store<unsigned>(data, 0);
    default: return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult get_one(void *data, CUpointer_attribute which, CUdeviceptr address)
{
    if (!data) return CUDA_ERROR_INVALID_VALUE;
    auto range = driver().ranges.find(address);
    return range ? known(data, which, address, *range) : CUDA_ERROR_INVALID_VALUE;
}

// What cuPointerGetAttributes answers where cuPointerGetAttribute fails.
CUresult nothing(void *data, CUpointer_attribute which)
{
    switch (which) {
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: return store<int>(data, -2);
    case CU_POINTER_ATTRIBUTE_CONTEXT:
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID: return store<uint64_t>(data, 0);
    default: return store<unsigned>(data, 0);
    }
}

CUresult get_many(unsigned count, CUpointer_attribute *which, void **data, CUdeviceptr address)
{
    if (!count || !which || !data) return CUDA_ERROR_INVALID_VALUE;
    auto range = driver().ranges.find(address);
    for (unsigned i = 0; i < count; i++) {
        if (!data[i] || which[i] < CU_POINTER_ATTRIBUTE_CONTEXT ||
            which[i] > CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE)
            return CUDA_ERROR_INVALID_VALUE;
        if (!range || known(data[i], which[i], address, *range)) nothing(data[i], which[i]);
    }
    return CUDA_SUCCESS;
}

CUresult set_one(const void *value, CUpointer_attribute which, CUdeviceptr address)
{
    if (!value || which != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) return CUDA_ERROR_INVALID_VALUE;
    // Synchronous copies are synchronous here in any case: the flag is only kept.
    unsigned set;
    memcpy(&set, value, sizeof set);
    return driver().ranges.set_sync_memops(address, set) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

RGPU_EXPORT(cuPointerGetAttribute, get_one)
RGPU_EXPORT(cuPointerGetAttributes, get_many)
RGPU_EXPORT(cuPointerSetAttribute, set_one)

}  // namespace

}  // namespace rgpu::softgpu::driver
