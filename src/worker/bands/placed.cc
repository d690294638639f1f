// SPDX-License-Identifier: Apache-2.0
#include "worker/bands/placed.h"

#include "wire/bands.h"

namespace rgpu::worker {

using wire::Band;

bool Placed::give_back(int device, uint64_t pages)
{
    uint64_t &unused = unused_[device];
    if (pages > unused) return false;
    unused -= pages;
    return true;
}

uint64_t Placed::unused(int device) const
{
    const auto at = unused_.find(device);
    return at == unused_.end() ? 0 : at->second;
}

Placed::Lives::const_iterator Placed::holder(uint64_t address) const
{
    auto it = live_.upper_bound(address);
    if (it == live_.begin()) return live_.end();
    --it;
    return address - it->first < it->second.bytes ? it : live_.end();
}

bool Placed::meets(uint64_t base, uint64_t bytes) const
{
    const auto next = live_.lower_bound(base);
    if (next != live_.end() && next->first - base < bytes) return true;
    return holder(base) != live_.end();
}

std::optional<Placed::Pages> Placed::allocate(const Block &b)
{
    if (!b.bytes || b.bytes > wire::kMostPlaced || !contains(b.base) ||
        b.bytes > bytes_ - (b.base - begin_))
        return {};
    const bool shares = b.bytes <= Band::kShares;
    const uint64_t first = Band::page_of(b.base);
    Pages fresh{first, Band::rounded(b.bytes, Band::kPage) / Band::kPage};
    if (shares) {
        const uint64_t bytes = Band::rounded(b.bytes, Band::kUnit);
        if (b.base % Band::kUnit || b.base - first > Band::kPage - bytes || meets(b.base, bytes))
            return {};
        const auto page = pages_.find(first);
        if (page != pages_.end() && (!page->second.pieces || page->second.device != b.device))
            return {};
        fresh.count = page == pages_.end();
    } else {
        if (b.base != first) return {};
        for (uint64_t i = 0; i < fresh.count; i++)
            if (pages_.contains(first + i * Band::kPage)) return {};
    }
    if (!give_back(b.device, fresh.count)) return {};
    live_[b.base] = {b.bytes, b.device, b.owner, false};
    for (uint64_t i = 0; i < fresh.count; i++) pages_[first + i * Band::kPage] = {b.device, 0};
    if (shares) pages_[first].pieces++;
    return fresh;
}

std::optional<Placed::Block> Placed::find(uint64_t address) const
{
    const auto it = holder(address);
    if (it == live_.end() || it->second.leaves) return {};
    const auto &[base, live] = *it;
    return Block{base, live.bytes, live.device, live.owner};
}

bool Placed::is_gone(uint64_t address) const { return holder(address) == live_.end(); }

std::optional<Placed::Block> Placed::forget(uint64_t base)
{
    const auto it = live_.find(base);
    if (it == live_.end() || it->second.leaves) return {};
    it->second.leaves = true;
    return Block{base, it->second.bytes, it->second.device, it->second.owner};
}

std::vector<Placed::Block> Placed::forget_all(uint32_t owner)
{
    std::vector<Block> gone;
    for (auto &[base, live] : live_) {
        if (live.owner != owner || live.leaves) continue;
        live.leaves = true;
        gone.push_back({base, live.bytes, live.device, live.owner});
    }
    return gone;
}

Placed::Pages Placed::release(const Block &b)
{
    live_.erase(b.base);
    Pages empty{Band::page_of(b.base), Band::rounded(b.bytes, Band::kPage) / Band::kPage};
    if (b.bytes <= Band::kShares) empty.count = --pages_.at(empty.begin).pieces == 0;
    for (uint64_t i = 0; i < empty.count; i++) pages_.erase(empty.begin + i * Band::kPage);
    unused_[b.device] += empty.count;
    return empty;
}

}  // namespace rgpu::worker
