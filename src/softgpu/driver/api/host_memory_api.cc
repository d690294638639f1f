// SPDX-License-Identifier: Apache-2.0
// Pinned and registered host memory. The device uses it at the host's own address.
#include <sys/mman.h>

#include "softgpu/driver/api/export.h"
#include "softgpu/driver/graph/capture.h"
#include "softgpu/driver/state/context.h"
#include "softgpu/driver/state/current.h"
#include "softgpu/driver/state/driver.h"
#include "softgpu/driver/state/memory.h"

namespace rgpu::softgpu::driver {

namespace {

constexpr unsigned kAllocFlags = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP |
                                 CU_MEMHOSTALLOC_WRITECOMBINED;
constexpr unsigned kRegisterFlags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                                    CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;

uint64_t address(const void *p) { return reinterpret_cast<uint64_t>(p); }

CUresult host_alloc(void **pointer, size_t bytes, unsigned flags)
{
    Context *c;
    if (CUresult rc = usable_context(c)) return rc;
    if (!pointer || !bytes || flags & ~kAllocFlags) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult rc = may_call_unsafe()) return rc;
    void *p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    Range made;
    made.base = address(p);
    made.bytes = bytes;
    made.memory = Memory::pinned;
    made.device = c->device.index;
    made.context = c;
    made.flags = flags;
    if (!driver().ranges.add(made)) {
        munmap(p, bytes);
        return CUDA_ERROR_UNKNOWN;
    }
    *pointer = p;
    return CUDA_SUCCESS;
}

CUresult alloc_host(void **pointer, size_t bytes) { return host_alloc(pointer, bytes, 0); }

CUresult free_host(void *p)
{
    Context *c;
    if (CUresult rc = usable_context(c)) return rc;
    auto range = driver().ranges.find(address(p));
    if (!range || range->memory != Memory::pinned || range->base != address(p))
        return CUDA_ERROR_INVALID_VALUE;
    if (CUresult rc = may_call_unsafe()) return rc;
    if (CUresult rc = range->context->synchronize()) return rc;
    range = driver().ranges.remove(address(p));
    if (!range) return CUDA_ERROR_INVALID_VALUE;
    release_range(*range);
    return CUDA_SUCCESS;
}

CUresult host_register(void *p, size_t bytes, unsigned flags)
{
    Context *c;
    if (CUresult rc = usable_context(c)) return rc;
    if (!p || !bytes || flags & ~kRegisterFlags || driver().is_window(address(p)))
        return CUDA_ERROR_INVALID_VALUE;
    Range made;
    made.base = address(p);
    made.bytes = bytes;
    made.memory = Memory::registered;
    made.device = c->device.index;
    made.context = c;
    made.flags = flags;
    return driver().ranges.add(made) ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
}

CUresult host_unregister(void *p)
{
    Context *c;
    if (CUresult rc = usable_context(c)) return rc;
    auto range = driver().ranges.find(address(p));
    if (!range || range->memory != Memory::registered || range->base != address(p))
        return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    if (CUresult rc = may_call_unsafe()) return rc;
    if (CUresult rc = range->context->synchronize()) return rc;
    driver().ranges.remove(address(p));
    return CUDA_SUCCESS;
}

CUresult device_pointer(CUdeviceptr *device, void *p, unsigned flags)
{
    Context *c;
    if (CUresult rc = usable_context(c)) return rc;
    if (!device || flags) return CUDA_ERROR_INVALID_VALUE;
    auto range = driver().ranges.find(address(p));
    if (!range || range->memory < Memory::managed) return CUDA_ERROR_INVALID_VALUE;
    *device = address(p);
    return CUDA_SUCCESS;
}

CUresult host_flags(unsigned *flags, void *p)
{
    Context *c;
    if (CUresult rc = usable_context(c)) return rc;
    auto range = driver().ranges.find(address(p));
    if (!flags || !range || range->memory != Memory::pinned) return CUDA_ERROR_INVALID_VALUE;
    // With unified addressing all of it is mapped, CUDA says.
    *flags = range->flags | CU_MEMHOSTALLOC_DEVICEMAP;
    return CUDA_SUCCESS;
}

RGPU_EXPORT(cuMemHostAlloc, host_alloc)
RGPU_EXPORT(cuMemAllocHost_v2, alloc_host)
RGPU_EXPORT(cuMemFreeHost, free_host)
RGPU_EXPORT(cuMemHostRegister, host_register)
RGPU_EXPORT(cuMemHostRegister_v2, host_register)
RGPU_EXPORT(cuMemHostUnregister, host_unregister)
RGPU_EXPORT(cuMemHostGetDevicePointer_v2, device_pointer)
RGPU_EXPORT(cuMemHostGetFlags, host_flags)

}  // namespace

}  // namespace rgpu::softgpu::driver
