// SPDX-License-Identifier: Apache-2.0
#include "softgpu/driver/base/ranges.h"

#include <mutex>

namespace rgpu::softgpu::driver {

namespace {

template <class Map> auto holding(Map &ranges, uint64_t address)
{
    auto it = ranges.upper_bound(address);
    if (it == ranges.begin()) return ranges.end();
    --it;
    return address - it->first < it->second.bytes ? it : ranges.end();
}

}  // namespace

bool Ranges::add(Range range)
{
    std::unique_lock lock(mutex_);
    auto next = ranges_.lower_bound(range.base);
    if (next != ranges_.end() && next->first - range.base < range.bytes) return false;
    if (holding(ranges_, range.base) != ranges_.end()) return false;
    range.id = next_id_++;
    ranges_.emplace_hint(next, range.base, range);
    return true;
}

std::optional<Range> Ranges::find(uint64_t address) const
{
    std::shared_lock lock(mutex_);
    auto it = holding(ranges_, address);
    if (it == ranges_.end()) return std::nullopt;
    return it->second;
}

std::optional<Range> Ranges::remove(uint64_t base)
{
    std::unique_lock lock(mutex_);
    auto it = ranges_.find(base);
    if (it == ranges_.end()) return std::nullopt;
    Range gone = it->second;
    ranges_.erase(it);
    return gone;
}

bool Ranges::contains(uint64_t address, uint64_t bytes, bool write) const
{
    if (!bytes) return true;
    std::shared_lock lock(mutex_);
    auto it = holding(ranges_, address);
    if (it == ranges_.end() || (write && !it->second.writable)) return false;
    uint64_t left = it->second.bytes - (address - it->first);
    while (bytes > left && it->second.memory == Memory::mapped) {
        auto next = std::next(it);
        if (next == ranges_.end() || next->second.memory != Memory::mapped ||
            (write && !next->second.writable) || next->first != it->first + it->second.bytes)
            return false;
        left += next->second.bytes;
        it = next;
    }
    return bytes <= left;
}

bool Ranges::set_sync_memops(uint64_t address, bool value)
{
    std::unique_lock lock(mutex_);
    auto it = holding(ranges_, address);
    if (it == ranges_.end()) return false;
    it->second.sync_memops = value;
    return true;
}

std::vector<Range> Ranges::remove_all(const Context *context)
{
    std::vector<Range> gone;
    std::unique_lock lock(mutex_);
    for (auto it = ranges_.begin(); it != ranges_.end();) {
        if (it->second.context != context) {
            ++it;
            continue;
        }
        gone.push_back(it->second);
        it = ranges_.erase(it);
    }
    return gone;
}

}  // namespace rgpu::softgpu::driver
