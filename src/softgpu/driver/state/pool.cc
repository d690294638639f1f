// SPDX-License-Identifier: Apache-2.0
#include "softgpu/driver/state/pool.h"

#include <sys/mman.h>

#include <algorithm>

#include "softgpu/driver/base/shared_file.h"
#include "softgpu/driver/state/device.h"

namespace rgpu::softgpu::driver {

Pool::Pool(Device &d, bool is_default) : device(d), is_default(is_default) {}

Pool::~Pool()
{
    if (base_) device.arena.unmap_and_unreserve(base_, bytes_);
}

bool Pool::reserve(uint64_t bytes)
{
    bytes_ = bytes;
    return (base_ = device.arena.reserve(bytes, Arena::kPage)) != 0;
}

bool Pool::make_exportable(uint64_t bytes)
{
    bytes = (bytes + Arena::kPage - 1) / Arena::kPage * Arena::kPage;
    auto file = make_exported_file(GivenAway::pool, device.uuid, bytes);
    if (!file || !reserve(bytes)) return false;
    file_ = std::move(*file);
    own_ = std::make_unique<Arena>(base_, bytes, device, file_.get());
    return true;
}

bool Pool::import(Fd file, uint64_t bytes)
{
    if (!reserve(bytes)) return false;
    void *at = reinterpret_cast<void *>(base_);
    if (mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file.get(), 0) ==
        MAP_FAILED)
        return false;
    madvise(at, bytes, MADV_DONTFORK);
    file_ = std::move(file);
    return true;
}

Arena &Pool::arena() { return own_ ? *own_ : device.arena; }

bool Pool::count_taken(uint64_t bytes)
{
    std::lock_guard lock(mutex_);
    if (max_bytes && used_ + bytes > max_bytes) return false;
    used_ += bytes;
    used_high_ = std::max(used_high_, used_);
    return true;
}

void Pool::count_freed(uint64_t bytes)
{
    std::lock_guard lock(mutex_);
    used_ -= bytes;
}

CUresult Pool::attribute(CUmemPool_attribute which, void *value)
{
    std::lock_guard lock(mutex_);
    switch (which) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        *static_cast<int *>(value) =
            reuse_[which - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES];
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        *static_cast<cuuint64_t *>(value) = threshold_;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        *static_cast<cuuint64_t *>(value) = used_;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        *static_cast<cuuint64_t *>(value) = used_high_;
        return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult Pool::set_attribute(CUmemPool_attribute which, const void *value)
{
    std::lock_guard lock(mutex_);
    switch (which) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        reuse_[which - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES] =
            *static_cast<const int *>(value) != 0;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        threshold_ = *static_cast<const cuuint64_t *>(value);
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        // CUDA: only zero, which starts counting anew.
        if (*static_cast<const cuuint64_t *>(value)) return CUDA_ERROR_INVALID_VALUE;
        used_high_ = used_;
        return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
}

}  // namespace rgpu::softgpu::driver
