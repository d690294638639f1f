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
        shared.used.erase(page);
        shared.pieces.take_at(page, kPage);
        take_page(page, device);
    }
    return page;
}

void Band::drop_spares()
{
    for (auto &[device, shared] : shared_) drop_spare(shared, device);
}

void Band::take_page(uint64_t page, int device) { drop_pages(device, page, kPage, 1); }

CUresult Band::put_pages(int device, uint64_t address, uint64_t bytes)
{
    const CUresult r = pages_.put(address, bytes, device);
    const auto shared = shared_.find(device);
    return r == CUDA_ERROR_OUT_OF_MEMORY && shared != shared_.end() &&
                   drop_spare(shared->second, device)
               ? pages_.put(address, bytes, device)
               : r;
}

CUresult Band::add_pages(int device, uint64_t bytes, uint64_t &address, size_t parts)
{
    address = free_.take_lowest(bytes, kPage, parts);
    if (!address) return kNoAddresses;
    try {
        const CUresult r = put_pages(device, address, bytes);
        if (r) free_.add(address, bytes, parts);
        return r;
    } catch (...) {
        free_.add(address, bytes, parts);
        throw;
    }
}

// Memory at the beginning of a new page.
CUresult Band::add_shared_page(Shared &shared, int device, uint64_t bytes, uint64_t &address)
{
    shared.pieces.promise(2);  // the rest of the page, and what is given out now
    bool there = false;
    try {
        const CUresult r = add_pages(device, kPage, address, 1);
        there = !r;
        if (there) shared.used.emplace(address, 1);
        if (!there) shared.pieces.promise_less(2);
        if (there) shared.pieces.add(address + bytes, kPage - bytes, 1);
        return r;
    } catch (...) {
        shared.pieces.promise_less(2);
        if (there) take_page(address, device);
        throw;
    }
}

CUresult Band::allocate_small(int device, uint64_t bytes, uint64_t &address)
{
    Shared &shared = shared_[device];
    address = shared.pieces.take_smallest(bytes, 1);
    if (!address) return add_shared_page(shared, device, bytes, address);
    const uint64_t page = page_of(address);
    if (page == shared.spare) shared.spare = 0;
    shared.used.find(page)->second++;
    return CUDA_SUCCESS;
}

CUresult Band::allocate(int device, uint32_t owner, uint64_t bytes, uint64_t &address)
{
    if (!bytes || bytes > bytes_) return CUDA_ERROR_OUT_OF_MEMORY;
    Lives known;
    known.emplace(0, Live{bytes, device, owner});
    const CUresult r = bytes <= kShares ? allocate_small(device, rounded(bytes, kUnit), address)
                                        : add_pages(device, rounded(bytes, kPage), address, 1);
    if (r) return r;
    auto node = known.extract(known.begin());
    node.key() = address;
    live_.insert(std::move(node));
    return CUDA_SUCCESS;
}

std::optional<Band::Block> Band::find(uint64_t address) const
{
    auto it = live_.upper_bound(address);
    if (it == live_.begin()) return {};
    --it;
    if (address - it->first >= it->second.bytes) return {};
    return block_of(*it);
}

void Band::remember(const Block &b) { live_[b.base] = {b.bytes, b.device, b.owner}; }

std::optional<Band::Block> Band::forget(uint64_t base)
{
    const auto it = live_.find(base);
    if (it == live_.end()) return {};
    const Block gone = block_of(*it);
    live_.erase(it);
    return gone;
}

bool Band::move_to(Lives &to, uint64_t base)
{
    const auto it = live_.find(base);
    if (it == live_.end()) return false;
    to.insert(live_.extract(it));
    return true;
}

std::vector<Band::Block> Band::forget_all(uint32_t owner)
{
    std::vector<Block> gone;
    for (const auto &l : live_)
        if (l.second.owner == owner) gone.push_back(block_of(l));
    for (const Block &b : gone) live_.erase(b.base);
    return gone;
}

void Band::move_all_to(Lives &to, uint32_t owner)
{
    for (auto it = live_.begin(); it != live_.end();) {
        const auto at = it++;
        if (at->second.owner == owner) to.insert(live_.extract(at));
    }
}

void Band::release_small(const Block &b)
{
    Shared &shared = shared_.at(b.device);
    const uint64_t page = page_of(b.base);
    shared.pieces.add(b.base, rounded(b.bytes, kUnit), 1);
    const auto used = shared.used.find(page);
    if (--used->second) return;
    if (!shared.spare && shared.pages_in_use() > 1) {
        shared.spare = page;
        return;
    }
    shared.used.erase(used);
    shared.pieces.take_at(page, kPage);
    take_page(page, b.device);
    if (!shared.pages_in_use()) drop_spare(shared, b.device);
}

void Band::release(const Block &b)
{
    if (b.bytes <= kShares) return release_small(b);
    drop_pages(b.device, b.base, rounded(b.bytes, kPage), 1);
}

void Band::drop_pages(int device, uint64_t address, uint64_t bytes, size_t parts)
{
    pages_.take(address, bytes, device);
    free_.add(address, bytes, parts);
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
