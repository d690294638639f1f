// SPDX-License-Identifier: Apache-2.0
// Allocating and freeing: CUDA Driver API, "Memory Management".
#include <algorithm>

#include "softgpu/driver/api/export.h"
#include "softgpu/driver/graph/capture.h"
#include "softgpu/driver/graph/graph_memory.h"
#include "softgpu/driver/state/context.h"
#include "softgpu/driver/state/current.h"
#include "softgpu/driver/state/driver.h"
#include "softgpu/driver/state/memory.h"
#include "softgpu/driver/state/stream.h"

namespace rgpu::softgpu::driver {

namespace {

constexpr size_t kPitch = 512;

CUresult allocate(CUdeviceptr *address, size_t bytes, Memory memory, unsigned flags)
{
    Context *c;
    if (CUresult rc = usable_context(c)) return rc;
    if (!address || !bytes) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult rc = may_call_unsafe()) return rc;
    Range made;
    made.context = c;
    made.memory = memory;
    made.flags = flags;
    const uint64_t a = allocate_device(c->device, bytes, made);
    if (!a) return CUDA_ERROR_OUT_OF_MEMORY;
    *address = a;
    return CUDA_SUCCESS;
}

CUresult get_info(size_t *free, size_t *total)
{
    Context *c;
    if (CUresult rc = usable_context(c)) return rc;
    if (!free && !total) return CUDA_ERROR_INVALID_VALUE;
    const uint64_t used = c->device.used();
    if (free) *free = c->device.total - std::min<uint64_t>(used, c->device.total);
    if (total) *total = c->device.total;
    return CUDA_SUCCESS;
}

CUresult alloc(CUdeviceptr *address, size_t bytes)
{
    return allocate(address, bytes, Memory::device, 0);
}

CUresult alloc_managed(CUdeviceptr *address, size_t bytes, unsigned flags)
{
    if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)
        return CUDA_ERROR_INVALID_VALUE;
    return allocate(address, bytes, Memory::managed, flags);
}

CUresult alloc_pitch(CUdeviceptr *address, size_t *pitch, size_t width, size_t height,
                     unsigned element)
{
    if (!pitch || !width || !height || (element != 4 && element != 8 && element != 16))
        return CUDA_ERROR_INVALID_VALUE;
    const size_t row = (width + kPitch - 1) / kPitch * kPitch;
    size_t bytes;
    if (row < width || __builtin_mul_overflow(row, height, &bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    if (CUresult rc = alloc(address, bytes)) return rc;
    *pitch = row;
    return CUDA_SUCCESS;
}

CUresult free_it(CUdeviceptr address)
{
    Context *c;
    if (CUresult rc = usable_context(c)) return rc;
    if (!address) return CUDA_SUCCESS;
    auto range = driver().ranges.find(address);
    if (!range || range->base != address) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult rc = may_call_unsafe()) return rc;
    // CUDA waits for work that may use it; so do we.
    if (CUresult rc = (range->context ? range->context : c)->synchronize()) return rc;
    return free_memory(address);
}

CUresult address_range(CUdeviceptr *base, size_t *bytes, CUdeviceptr address)
{
    Context *c;
    if (CUresult rc = usable_context(c)) return rc;
    auto range = driver().ranges.find(address);
    if (!range) return CUDA_ERROR_NOT_FOUND;
    if (base) *base = range->base;
    if (bytes) *bytes = range->bytes;
    return CUDA_SUCCESS;
}

RGPU_EXPORT(cuMemGetInfo_v2, get_info)
RGPU_EXPORT(cuMemAlloc_v2, alloc)
RGPU_EXPORT(cuMemAllocManaged, alloc_managed)
RGPU_EXPORT(cuMemAllocPitch_v2, alloc_pitch)
RGPU_EXPORT(cuMemFree_v2, free_it)
RGPU_EXPORT(cuMemGetAddressRange_v2, address_range)

}  // namespace

}  // namespace rgpu::softgpu::driver

// For who looks after a GPU without a context (rgpu-worker): what all processes of the host hold on
// it.
extern "C" [[gnu::visibility("default")]] uint64_t rgpu_softgpu_memory_used(int device)
{
    auto *d = rgpu::softgpu::driver::find_device(device);
    return d ? d->used() : 0;
}

// ... and what this process holds.
extern "C" [[gnu::visibility("default")]] uint64_t rgpu_softgpu_memory_held(int device)
{
    auto *d = rgpu::softgpu::driver::find_device(device);
    return d ? d->held_here() : 0;
}
