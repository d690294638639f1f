// SPDX-License-Identifier: Apache-2.0
#include "util/free_ranges.h"

#include <iterator>

namespace rgpu {

void FreeRanges::insert(uint64_t begin, uint64_t bytes)
{
    if (!bytes) return;
    ranges_[begin] = bytes;
    by_size_.emplace(bytes, begin);
}

void FreeRanges::erase(Ranges::iterator it)
{
    by_size_.erase({it->second, it->first});
    ranges_.erase(it);
}

FreeRanges::Range FreeRanges::add(uint64_t begin, uint64_t bytes)
{
    auto next = ranges_.lower_bound(begin);
    if (next != ranges_.end() && begin + bytes == next->first && joins(next->first)) {
        bytes += next->second;
        erase(next++);
    }
    if (next != ranges_.begin() && joins(begin)) {
        const auto before = std::prev(next);
        if (before->first + before->second == begin) {
            begin = before->first;
            bytes += before->second;
            erase(before);
        }
    }
    insert(begin, bytes);
    return {begin, bytes};
}

void FreeRanges::cut(Ranges::iterator it, uint64_t begin, uint64_t bytes)
{
    const auto [first, room] = *it;
    erase(it);
    insert(first, begin - first);
    insert(begin + bytes, room - (begin - first) - bytes);
}

uint64_t FreeRanges::take_lowest(uint64_t bytes, uint64_t alignment)
{
    if (by_size_.empty() || by_size_.rbegin()->first < bytes) return 0;
    for (auto it = ranges_.begin(); it != ranges_.end(); ++it) {
        const auto [first, room] = *it;
        const uint64_t rest = first % alignment, before = rest ? alignment - rest : 0;
        if (room < bytes || before > room - bytes) continue;
        cut(it, first + before, bytes);
        return first + before;
    }
    return 0;
}

uint64_t FreeRanges::take_smallest(uint64_t bytes)
{
    const auto best = by_size_.lower_bound({bytes, 0});
    if (best == by_size_.end()) return 0;
    const uint64_t begin = best->second;
    cut(ranges_.find(begin), begin, bytes);
    return begin;
}

bool FreeRanges::take_at(uint64_t begin, uint64_t bytes)
{
    auto it = ranges_.upper_bound(begin);
    if (it == ranges_.begin()) return false;
    const auto [first, room] = *--it;
    const uint64_t before = begin - first;
    if (before > room || bytes > room - before) return false;
    cut(it, begin, bytes);
    return true;
}

}  // namespace rgpu
