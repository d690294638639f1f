// SPDX-License-Identifier: Apache-2.0
#include "wire/band.h"

#include <algorithm>

namespace rgpu::wire {

Band::Band(uint64_t base, uint64_t bytes, Pages &pages) : base_(base), bytes_(bytes), pages_(pages)
{
    free_.add(base, bytes);
}

bool Band::drop_spare(Shared &shared, int device)
{
    const uint64_t page = std::exchange(shared.spare, 0);
    if (page) {
        shared.pieces.take_at(page, kPage);
        take_page(page, device);
    }
    return page;
}

void Band::drop_spares()
{
    for (auto &[device, shared] : shared_) drop_spare(shared, device);
}

void Band::take_page(uint64_t page, int device)
{
    pages_.take(page, kPage, device);
    free_.add(page, kPage);
}

CUresult Band::add_pages(int device, uint64_t bytes, uint64_t &address)
{
    address = free_.take_lowest(bytes, kPage);
    if (!address) return kNoAddresses;
    CUresult r = pages_.put(address, bytes, device);
    const auto shared = shared_.find(device);
    if (r == CUDA_ERROR_OUT_OF_MEMORY && shared != shared_.end() &&
        drop_spare(shared->second, device))
        r = pages_.put(address, bytes, device);
    if (r) free_.add(address, bytes);
    return r;
}

CUresult Band::allocate_small(int device, uint64_t bytes, uint64_t &address)
{
    Shared &shared = shared_[device];
    address = shared.pieces.take_smallest(bytes);
    if (!address) {
        if (CUresult r = add_pages(device, kPage, address)) return r;
        shared.pieces.add(address + bytes, kPage - bytes);
    }
    const uint64_t page = page_of(address);
    if (page == shared.spare) shared.spare = 0;
    shared.used[page]++;
    return CUDA_SUCCESS;
}

CUresult Band::allocate(int device, uint32_t owner, uint64_t bytes, uint64_t &address)
{
    if (!bytes || bytes > bytes_) return CUDA_ERROR_OUT_OF_MEMORY;
    const CUresult r = bytes <= kShares ? allocate_small(device, rounded(bytes, kUnit), address)
                                        : add_pages(device, rounded(bytes, kPage), address);
    if (!r) remember({address, bytes, device, owner});
    return r;
}

std::optional<Band::Block> Band::find(uint64_t address) const
{
    auto it = live_.upper_bound(address);
    if (it == live_.begin()) return {};
    const auto &[base, live] = *--it;
    if (address - base >= live.bytes) return {};
    return Block{base, live.bytes, live.device, live.owner};
}

void Band::remember(const Block &b) { live_[b.base] = {b.bytes, b.device, b.owner}; }

std::optional<Band::Block> Band::forget(uint64_t base)
{
    const auto it = live_.find(base);
    if (it == live_.end()) return {};
    const Block gone{base, it->second.bytes, it->second.device, it->second.owner};
    live_.erase(it);
    return gone;
}

std::vector<Band::Block> Band::forget_all(uint32_t owner)
{
    std::vector<Block> gone;
    std::erase_if(live_, [&](const auto &entry) {
        const auto &[base, live] = entry;
        if (live.owner != owner) return false;
        gone.push_back({base, live.bytes, live.device, live.owner});
        return true;
    });
    return gone;
}

void Band::release_small(const Block &b)
{
    Shared &shared = shared_[b.device];
    const uint64_t page = page_of(b.base);
    shared.pieces.add(b.base, rounded(b.bytes, kUnit));
    const auto used = shared.used.find(page);
    if (--used->second) return;
    shared.used.erase(used);
    const bool keeps = !shared.spare && !shared.used.empty();
    if (keeps) {
        shared.spare = page;
    } else {
        shared.pieces.take_at(page, kPage);
        take_page(page, b.device);
    }
    if (shared.used.empty()) drop_spare(shared, b.device);
}

void Band::release(const Block &b)
{
    if (b.bytes <= kShares) return release_small(b);
    pages_.take(b.base, rounded(b.bytes, kPage), b.device);
    free_.add(b.base, rounded(b.bytes, kPage));
}

uint64_t Band::reserve(uint64_t bytes, uint64_t alignment)
{
    return free_.take_lowest(bytes, std::max(alignment, kPage));
}

bool Band::reserve_at(uint64_t address, uint64_t bytes)
{
    return address % kPage == 0 && free_.take_at(address, bytes);
}

void Band::unreserve(uint64_t address, uint64_t bytes) { free_.add(address, bytes); }

}  // namespace rgpu::wire
