// SPDX-License-Identifier: Apache-2.0
#include "interpose/state/pool_memory.h"

#include <algorithm>
#include <iterator>

namespace rgpu::interpose {

namespace {

// What another stream freed is looked through up to here: the smallest that fit.
constexpr int kMostLooked = 16;

}  // namespace

void PoolMemory::change(Count &count, uint64_t more, uint64_t less)
{
    count.now += more - less;
    count.high = std::max(count.high, count.now);
}

void PoolMemory::insert(uint64_t begin, const Hole &hole)
{
    if (!hole.bytes) return;
    holes_[begin] = hole;
    Of &of = of_[hole.stream];
    of.by_size.emplace(hole.bytes, begin);
    if (hole.stream != kNobody) of.by_moment.emplace(hole.moment, begin);
    if (hole.stream == kNobody) nobodys_ += hole.bytes;
}

PoolMemory::Holes::iterator PoolMemory::erase(Holes::iterator at)
{
    const auto &[begin, hole] = *at;
    const auto of = of_.find(hole.stream);
    if (hole.stream == kNobody) nobodys_ -= hole.bytes;
    of->second.by_size.erase({hole.bytes, begin});
    of->second.by_moment.erase({hole.moment, begin});
    if (of->second.by_size.empty()) of_.erase(of);
    return holes_.erase(at);
}

const std::pair<const uint64_t, uint64_t> *PoolMemory::piece_at(uint64_t address) const
{
    auto at = pieces_.upper_bound(address);
    if (at == pieces_.begin()) return nullptr;
    --at;
    return address - at->first < at->second ? &*at : nullptr;
}

// Whether what lies before an address and what lies behind it may be one hole.
bool PoolMemory::joins(uint64_t at) const { return at % kPage || piece_at(at - 1) == piece_at(at); }

void PoolMemory::insert_joined(uint64_t begin, Hole hole)
{
    auto next = holes_.lower_bound(begin);
    const auto joins_with = [&](const Hole &other, uint64_t at) {
        return other.stream == hole.stream && joins(at);
    };
    if (next != holes_.end() && begin + hole.bytes == next->first &&
        joins_with(next->second, next->first)) {
        hole.bytes += next->second.bytes;
        hole.moment = std::max(hole.moment, next->second.moment);
        next = erase(next);
    }
    if (next != holes_.begin()) {
        const auto before = std::prev(next);
        if (before->first + before->second.bytes == begin && joins_with(before->second, begin)) {
            begin = before->first;
            hole.bytes += before->second.bytes;
            hole.moment = std::max(hole.moment, before->second.moment);
            erase(before);
        }
    }
    insert(begin, hole);
}

uint64_t PoolMemory::cut(Holes::iterator at, uint64_t bytes)
{
    const uint64_t begin = at->first;
    Hole rest = at->second;
    erase(at);
    rest.bytes -= bytes;
    insert(begin + bytes, rest);
    change(used_, bytes, 0);
    return begin;
}

void PoolMemory::grow(const Range &range, Kind kind, uint64_t bytes)
{
    if (kind == Kind::piece) pieces_[range.begin] = range.bytes;
    bytes = rounded(bytes);
    change(reserved_, range.bytes, 0);
    change(used_, bytes, 0);
    if (range.bytes > bytes) insert_joined(range.begin + bytes, {range.bytes - bytes, kNobody, 0});
}

uint64_t PoolMemory::take(uint64_t bytes, Stream stream)
{
    bytes = rounded(bytes);
    const std::pair<uint64_t, uint64_t> *best = nullptr;
    for (const Stream whose : {stream, kNobody}) {
        const auto of = of_.find(whose);
        if (of == of_.end()) continue;
        const auto at = of->second.by_size.lower_bound({bytes, 0});
        if (at != of->second.by_size.end() && (!best || at->first < best->first)) best = &*at;
    }
    return best ? cut(holes_.find(best->second), bytes) : 0;
}

uint64_t PoolMemory::take_from(uint64_t bytes, Stream other, Moment until)
{
    bytes = rounded(bytes);
    const auto of = of_.find(other);
    if (of == of_.end()) return 0;
    auto at = of->second.by_size.lower_bound({bytes, 0});
    for (int i = 0; i < kMostLooked && at != of->second.by_size.end(); i++, ++at) {
        const auto hole = holes_.find(at->second);
        if (hole->second.moment <= until) return cut(hole, bytes);
    }
    return 0;
}

void PoolMemory::free(const Range &range, Stream stream, Moment moment)
{
    const uint64_t bytes = rounded(range.bytes);
    change(used_, 0, bytes);
    insert_joined(range.begin, {bytes, stream, stream == kNobody ? 0 : moment});
}

void PoolMemory::over(Stream stream, Moment until)
{
    for (;;) {
        const auto of = of_.find(stream);
        if (stream == kNobody || of == of_.end()) return;
        const auto [moment, begin] = *of->second.by_moment.begin();
        if (moment > until) return;
        const auto hole = holes_.find(begin);
        const uint64_t bytes = hole->second.bytes;
        erase(hole);
        insert_joined(begin, {bytes, kNobody, 0});
    }
}

// Of a hole that is nobody's, so many bytes at most, but for a piece, which goes as a whole.
bool PoolMemory::take_out(Range hole, uint64_t most, std::vector<Range> &out)
{
    Range part = hole;
    if (const auto *piece = piece_at(hole.begin)) {
        if (piece->first != hole.begin || piece->second != hole.bytes) return false;
        pieces_.erase(hole.begin);
    } else {
        const uint64_t end = (hole.begin + hole.bytes) / kPage * kPage;
        part.begin = (hole.begin + kPage - 1) / kPage * kPage;
        if (end <= part.begin) return false;
        part.bytes = std::min(end - part.begin, (most + kPage - 1) / kPage * kPage);
    }
    erase(holes_.find(hole.begin));
    insert(hole.begin, {part.begin - hole.begin, kNobody, 0});
    insert(part.begin + part.bytes,
           {hole.begin + hole.bytes - part.begin - part.bytes, kNobody, 0});
    change(reserved_, 0, part.bytes);
    out.push_back(part);
    return true;
}

std::vector<PoolMemory::Range> PoolMemory::release(uint64_t keep)
{
    std::vector<Range> out, large;
    const auto of = of_.find(kNobody);
    if (of == of_.end() || reserved_.now <= keep) return out;
    for (auto at = of->second.by_size.rbegin();
         at != of->second.by_size.rend() && at->first >= kPage; ++at)
        large.push_back({at->second, at->first});
    for (const Range &hole : large) {
        if (reserved_.now <= keep) break;
        take_out(hole, reserved_.now - keep, out);
    }
    return out;
}

}  // namespace rgpu::interpose
