// SPDX-License-Identifier: Apache-2.0
#include "softgpu/driver/state/memory.h"

#include <sys/mman.h>

#include "softgpu/driver/state/driver.h"
#include "softgpu/driver/state/pool.h"

namespace rgpu::softgpu::driver {

uint64_t allocate_device(Device &device, uint64_t bytes, Range made)
{
    made.base = (made.pool ? made.pool->arena() : device.arena).allocate(bytes);
    if (!made.base) return 0;
    made.bytes = bytes;
    made.device = device.index;
    driver().ranges.add(made);
    return made.base;
}

uint64_t allocate_from(const std::shared_ptr<Pool> &pool, uint64_t bytes)
{
    const uint64_t size = Arena::rounded(bytes);
    if (!pool->count_taken(size)) return 0;
    Range made;
    made.pool = pool;
    const uint64_t address = allocate_device(pool->device, bytes, made);
    if (!address) pool->count_freed(size);
    return address;
}

void release_range(const Range &r)
{
    if (r.memory == Memory::managed) driver().advices.forget(r.base, r.bytes);
    if (r.memory == Memory::imported)
        driver().devices[r.device]->arena.unmap_and_unreserve(r.mapped_base, r.mapped_bytes);
    else if (r.on_device() && !(r.pool && r.pool->is_imported()))  // those another process frees
        (r.pool ? r.pool->arena() : driver().devices[r.device]->arena).free(r.base, r.bytes);
    else if (r.memory == Memory::pinned)
        munmap(reinterpret_cast<void *>(r.base), r.bytes);
    if (r.pool) r.pool->count_freed(Arena::rounded(r.bytes));
}

CUresult free_device(uint64_t address)
{
    Driver &d = driver();
    std::optional<Range> r = d.ranges.find(address);
    if (!r || r->base != address || (r->memory != Memory::device && r->memory != Memory::managed))
        return CUDA_ERROR_INVALID_VALUE;
    r = d.ranges.remove(address);
    if (!r) return CUDA_ERROR_INVALID_VALUE;
    release_range(*r);
    return CUDA_SUCCESS;
}

bool device_may_touch(uint64_t address, uint64_t bytes, bool write)
{
    return driver().ranges.contains(address, bytes, write);
}

bool host_may_touch(uint64_t address, uint64_t bytes, bool write)
{
    if (!address) return !bytes;
    return !driver().is_window(address) || driver().ranges.contains(address, bytes, write);
}

bool is_pageable(uint64_t address) { return !driver().ranges.find(address); }

}  // namespace rgpu::softgpu::driver
