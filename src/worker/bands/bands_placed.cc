// SPDX-License-Identifier: Apache-2.0
// Memory at addresses that the client chooses, and the pages that are its credit for it.
#include <algorithm>

#include "wire/bands.h"
#include "worker/bands/bands.h"
#include "worker/limits/memory_cap.h"

namespace rgpu::worker {

#define REAL(name) (real.call<CallId::name>())

namespace {

// Shared pages of a device, and pools' pages, that stay mapped when nothing lies in them any more,
// as what comes next may lie there again.
constexpr size_t kMostEmpty = 4, kMostOfPools = wire::kMostCredit / Band::kPage;
// Of what is free a client gets a small part ahead.
constexpr uint64_t kPartAhead = 16;

}  // namespace

bool Bands::begin_placed()
{
    if (placed_ || !begin()) return placed_ != nullptr;
    // Where the program has reserved some of it already, another place.
    placed_begin_ = wire::placed_begin(index_);
    if (!band_->reserve_at(placed_begin_, wire::kPlacedBytes))
        placed_begin_ = band_->reserve(wire::kPlacedBytes, Band::kPage);
    if (placed_begin_) placed_ = std::make_unique<Placed>(placed_begin_, wire::kPlacedBytes);
    return placed_ != nullptr;
}

// All of them or none.
CUresult Bands::make_pages(Stock &stock, CUdevice device, uint64_t pages) const
{
    const size_t before = stock.spare.size();
    CUresult r = CUDA_SUCCESS;
    while (!r && stock.spare.size() < before + pages) {
        CUmemGenericAllocationHandle handle = 0;
        if (!(r = make(device, Band::kPage, handle))) stock.spare.push_back(handle);
    }
    for (; r && stock.spare.size() > before; stock.spare.pop_back())
        REAL(cuMemRelease)(stock.spare.back());
    return r;
}

uint64_t Bands::pages_ahead(CUdevice device) const
{
    CUdevice current = -1;
    size_t free = 0, total = 0;
    if (REAL(cuCtxGetDevice)(&current) || current != device || REAL(cuMemGetInfo_v2)(&free, &total))
        return 0;
    const uint64_t ahead = std::min<uint64_t>(free / kPartAhead, wire::kMostCredit) / Band::kPage;
    return ahead - std::min(ahead, placed_->unused(device));
}

CUresult Bands::grant(CUdevice device, uint64_t bytes, uint64_t &begin, uint64_t &granted)
{
    std::lock_guard lock(mutex_);
    poll_leaving();
    begin = granted = 0;
    if (!begin_placed()) return CUDA_ERROR_NOT_SUPPORTED;
    begin = placed_begin_;
    if (!bytes) return CUDA_SUCCESS;
    Stock &stock = stock_[device];
    uint64_t pages = Band::rounded(bytes, Band::kPage) / Band::kPage;
    if (CUresult r = make_pages(stock, device, pages)) return r;
    if (const uint64_t ahead = pages_ahead(device); !make_pages(stock, device, ahead))
        pages += ahead;
    placed_->grant(device, pages);
    granted = pages * Band::kPage;
    note_credit(device);
    return CUDA_SUCCESS;
}

bool Bands::is_gone(CUdeviceptr address)
{
    std::lock_guard lock(mutex_);
    poll_leaving();
    return !is_placed(address) || placed_->is_gone(address);
}

bool Bands::allocate_at(CUdeviceptr address, size_t bytes, CUresult &r)
{
    CUcontext context = nullptr;
    CUdevice device = -1;
    r = REAL(cuCtxGetCurrent)(&context);
    if (!r && !context) r = CUDA_ERROR_INVALID_CONTEXT;
    if (!r) r = REAL(cuCtxGetDevice)(&device);
    if (r) return true;
    std::lock_guard lock(mutex_);
    if (!placed_) return false;
    const auto pages = placed_->allocate({address, bytes, device, number_of(context)});
    if (!pages) return false;
    r = map_pages(*pages, device);
    return true;
}

bool Bands::take_back(CUdevice device, uint64_t bytes)
{
    std::lock_guard lock(mutex_);
    if (!placed_ || bytes % Band::kPage || !placed_->give_back(device, bytes / Band::kPage))
        return false;
    Stock &stock = stock_[device];
    for (uint64_t i = 0; i < bytes / Band::kPage; i++)
        if (const auto handle = page_of(stock)) REAL(cuMemRelease)(handle);
    note_credit(device);
    return true;
}

uint64_t Bands::credit(CUdevice device)
{
    std::lock_guard lock(mutex_);
    return placed_ ? placed_->unused(device) * Band::kPage : 0;
}

// A page that is mapped nowhere; 0 where there is none.
CUmemGenericAllocationHandle Bands::page_of(Stock &stock)
{
    if (!stock.spare.empty()) {
        const auto handle = stock.spare.back();
        stock.spare.pop_back();
        return handle;
    }
    if (stock.empty.empty()) return 0;
    return unmap_at(stock.empty.extract(stock.empty.begin()).value()).handle;
}

CUresult Bands::map_pages(const Placed::Pages &pages, CUdevice device)
{
    if (!pages.count) return CUDA_SUCCESS;
    Stock &stock = stock_[device];
    CUresult first = CUDA_SUCCESS;
    for (uint64_t i = 0; i < pages.count; i++) {
        const uint64_t address = pages.begin + i * Band::kPage;
        if (stock.empty.erase(address)) continue;
        for (auto &[other, its] : stock_)  // another device had it
            if (its.empty.erase(address)) its.spare.push_back(unmap_at(address).handle);
        const auto handle = page_of(stock);
        const CUresult r = handle ? map_at(address, {handle, Band::kPage})
                                  : CUDA_ERROR_OUT_OF_MEMORY;
        if (r && handle) stock.spare.push_back(handle);
        if (r && !first) first = r;
    }
    note_credit(device);
    return first;
}

void Bands::release_placed(const Band::Block &block)
{
    const Placed::Pages pages = placed_->release(block);
    if (!pages.count) return;
    Stock &stock = stock_[block.device];
    const size_t most = block.owner == kNobody         ? kMostOfPools
                        : block.bytes <= Band::kShares ? kMostEmpty
                                                       : 0;
    for (uint64_t i = 0; i < pages.count; i++) {
        const uint64_t address = pages.begin + i * Band::kPage;
        if (!mappings_.contains(address)) continue;  // the driver did not map it
        if (stock.empty.size() < most)
            stock.empty.insert(address);
        else
            stock.spare.push_back(unmap_at(address).handle);
    }
    note_credit(block.device);
}

// Others of the lease may wait for it.
void Bands::note_credit(CUdevice device) const
{
    worker::note_credit(device, placed_->unused(device));
}

}  // namespace rgpu::worker
