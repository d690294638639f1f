// SPDX-License-Identifier: Apache-2.0
// Memory of pools: pages and pieces that the client divides up.
#include "worker/bands/bands.h"

#include "wire/bands.h"

namespace rgpu::worker {

bool Bands::is_pooled(uint64_t address) const
{
    const auto block = block_at(address);
    return block && block->owner == kNobody;
}

bool Bands::take_pages(CUdevice device, CUdeviceptr address, size_t bytes, CUresult &r)
{
    std::lock_guard lock(mutex_);
    if (!placed_ || !bytes || bytes % Band::kPage || bytes > wire::kMostPlaced) return false;
    for (uint64_t at = 0; at < bytes; at += Band::kPage)
        if (!placed_->allocate({address + at, Band::kPage, device, kNobody})) return false;
    r = map_pages({address, bytes / Band::kPage}, device);
    return true;
}

CUresult Bands::take_piece(CUdevice device, size_t bytes, CUdeviceptr &address)
{
    std::lock_guard lock(mutex_);
    poll_leaving();
    if (!begin_placed()) return CUDA_ERROR_NOT_SUPPORTED;
    uint64_t begin = 0;
    const CUresult r = band_->allocate(device, kNobody, bytes, begin);
    address = begin;
    return r == Band::kNoAddresses ? CUDA_ERROR_NOT_SUPPORTED : r;
}

bool Bands::give_pages(CUdeviceptr address, size_t bytes)
{
    std::lock_guard lock(mutex_);
    if (!bytes || bytes % Band::kPage || !is_pooled(address)) return false;
    if (!is_placed(address)) {
        const auto piece = *band_->find(address);
        if (piece.base != address || piece.bytes != bytes) return false;
        release(*band_->forget(address));
        return true;
    }
    for (; bytes; address += Band::kPage, bytes -= Band::kPage) {
        if (!is_placed(address) || !is_pooled(address)) return false;
        const auto page = placed_->forget(address);
        if (!page) return false;
        release(*page);
    }
    return true;
}

}  // namespace rgpu::worker
