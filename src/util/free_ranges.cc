// SPDX-License-Identifier: Apache-2.0
#include "util/free_ranges.h"

#include <iterator>

namespace rgpu {

void FreeRanges::promise(size_t times)
{
    spares_.reserve(promised_ + times);
    promised_ += times;
}

void FreeRanges::insert(Spares::Nodes &&nodes, uint64_t begin, uint64_t bytes) noexcept
{
    auto &[range, size] = nodes;
    range.key() = begin, range.mapped() = bytes;
    size.value() = {bytes, begin};
    ranges_.insert(std::move(range));
    by_size_.insert(std::move(size));
}

FreeRanges::Spares::Nodes FreeRanges::erase(Ranges::iterator it) noexcept
{
    auto size = by_size_.extract({it->second, it->first});
    return {ranges_.extract(it), std::move(size)};
}

FreeRanges::Range FreeRanges::add(uint64_t begin, uint64_t bytes, size_t promised)
{
    if (!promised) spares_.reserve(promised_ + 1);

    // From here on nothing throws.
    promised_ -= promised;
    if (!bytes) return {begin, bytes};
    Spares::Nodes nodes = spares_.take();
    auto next = ranges_.lower_bound(begin);
    if (next != ranges_.end() && begin + bytes == next->first && joins(next->first)) {
        bytes += next->second;
        put(erase(next++));
    }
    if (next != ranges_.begin() && joins(begin)) {
        const auto before = std::prev(next);
        if (before->first + before->second == begin) {
            begin = before->first;
            bytes += before->second;
            put(erase(before));
        }
    }
    insert(std::move(nodes), begin, bytes);
    return {begin, bytes};
}

void FreeRanges::cut(Ranges::iterator it, uint64_t begin, uint64_t bytes, size_t promise)
{
    const auto [first, room] = *it;
    const uint64_t before = begin - first, behind = room - before - bytes;
    spares_.reserve(promised_ + promise + (before && behind));

    // From here on nothing throws.
    promised_ += promise;
    Spares::Nodes nodes = erase(it);
    if (before)
        insert(std::exchange(nodes, behind ? spares_.take() : Spares::Nodes()), first, before);
    if (behind)
        insert(std::move(nodes), begin + bytes, behind);
    else if (!before)
        put(std::move(nodes));
}

uint64_t FreeRanges::take_lowest(uint64_t bytes, uint64_t alignment, size_t promise)
{
    if (by_size_.empty() || by_size_.rbegin()->first < bytes) return 0;
    for (auto it = ranges_.begin(); it != ranges_.end(); ++it) {
        const auto [first, room] = *it;
        const uint64_t rest = first % alignment, before = rest ? alignment - rest : 0;
        if (room < bytes || before > room - bytes) continue;
        cut(it, first + before, bytes, promise);
        return first + before;
    }
    return 0;
}

uint64_t FreeRanges::take_smallest(uint64_t bytes, size_t promise)
{
    const auto best = by_size_.lower_bound({bytes, 0});
    if (best == by_size_.end()) return 0;
    const uint64_t begin = best->second;
    cut(ranges_.find(begin), begin, bytes, promise);
    return begin;
}

bool FreeRanges::take_at(uint64_t begin, uint64_t bytes)
{
    auto it = ranges_.upper_bound(begin);
    if (it == ranges_.begin()) return false;
    const auto [first, room] = *--it;
    const uint64_t before = begin - first;
    if (before > room || bytes > room - before) return false;
    cut(it, begin, bytes, 0);
    return true;
}

}  // namespace rgpu
