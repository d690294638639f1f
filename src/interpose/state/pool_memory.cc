// SPDX-License-Identifier: Apache-2.0
#include "interpose/state/pool_memory.h"

#include <algorithm>
#include <iterator>

namespace rgpu::interpose {

namespace {

// What another stream freed is looked through up to here: the smallest that fit.
constexpr int kMostLooked = 16;

}  // namespace

void PoolMemory::change(Count &count, uint64_t more, uint64_t less) noexcept
{
    count.now += more - less;
    count.high = std::max(count.high, count.now);
}

void PoolMemory::insert(Spares::Nodes &&nodes, uint64_t begin, const Hole &hole) noexcept
{
    auto &[by_begin, by_size, by_moment] = nodes;
    by_begin.key() = begin, by_begin.mapped() = hole;
    by_size.value() = {hole.stream, hole.bytes, begin};
    by_moment.value() = {hole.stream, hole.moment, begin};
    holes_.insert(std::move(by_begin));
    by_size_.insert(std::move(by_size));
    by_moment_.insert(std::move(by_moment));
    if (hole.stream == kNobody) nobodys_ += hole.bytes;
}

PoolMemory::Spares::Nodes PoolMemory::erase(Holes::iterator at) noexcept
{
    const auto [begin, hole] = *at;
    if (hole.stream == kNobody) nobodys_ -= hole.bytes;
    auto by_size = by_size_.extract({hole.stream, hole.bytes, begin});
    auto by_moment = by_moment_.extract({hole.stream, hole.moment, begin});
    return {holes_.extract(at), std::move(by_size), std::move(by_moment)};
}

const std::pair<const uint64_t, uint64_t> *PoolMemory::piece_at(uint64_t address) const noexcept
{
    auto at = pieces_.upper_bound(address);
    if (at == pieces_.begin()) return nullptr;
    --at;
    return address - at->first < at->second ? &*at : nullptr;
}

// Whether what lies before an address and what lies behind it may be one hole.
bool PoolMemory::joins(uint64_t at) const noexcept
{
    return at % kPage || piece_at(at - 1) == piece_at(at);
}

void PoolMemory::insert_joined(Spares::Nodes &&nodes, uint64_t begin, Hole hole) noexcept
{
    auto next = holes_.lower_bound(begin);
    const auto joins_with = [&](const Hole &other, uint64_t at) {
        return other.stream == hole.stream && joins(at);
    };
    if (next != holes_.end() && begin + hole.bytes == next->first &&
        joins_with(next->second, next->first)) {
        hole.bytes += next->second.bytes;
        hole.moment = std::max(hole.moment, next->second.moment);
        put(erase(next++));
    }
    if (next != holes_.begin()) {
        const auto before = std::prev(next);
        if (before->first + before->second.bytes == begin && joins_with(before->second, begin)) {
            begin = before->first;
            hole.bytes += before->second.bytes;
            hole.moment = std::max(hole.moment, before->second.moment);
            put(erase(before));
        }
    }
    insert(std::move(nodes), begin, hole);
}

uint64_t PoolMemory::cut(Holes::iterator at, uint64_t bytes)
{
    spares_.reserve(given_out_ + 1);

    // From here on nothing throws.
    const uint64_t begin = at->first;
    Hole rest = at->second;
    given_out_++;
    change(used_, bytes, 0);
    Spares::Nodes nodes = erase(at);
    rest.bytes -= bytes;
    if (rest.bytes)
        insert(std::move(nodes), begin + bytes, rest);
    else
        put(std::move(nodes));
    return begin;
}

void PoolMemory::grow(const Range &range, Kind kind, uint64_t bytes)
{
    bytes = rounded(bytes);
    spares_.reserve(given_out_ + 2);
    if (kind == Kind::piece) pieces_.emplace(range.begin, range.bytes);

    // From here on nothing throws.
    given_out_++;
    change(reserved_, range.bytes, 0);
    change(used_, bytes, 0);
    if (range.bytes > bytes)
        insert_joined(spares_.take(), range.begin + bytes, {range.bytes - bytes, kNobody, 0});
}

uint64_t PoolMemory::take(uint64_t bytes, Stream stream)
{
    bytes = rounded(bytes);
    auto best = by_size_.end();
    for (const Stream whose : {stream, kNobody}) {
        const auto at = by_size_.lower_bound({whose, bytes, 0});
        if (at == by_size_.end() || std::get<0>(*at) != whose) continue;
        if (best == by_size_.end() || std::get<1>(*at) < std::get<1>(*best)) best = at;
    }
    return best == by_size_.end() ? 0 : cut(holes_.find(std::get<2>(*best)), bytes);
}

uint64_t PoolMemory::take_from(uint64_t bytes, Stream other, Moment until)
{
    bytes = rounded(bytes);
    auto at = by_size_.lower_bound({other, bytes, 0});
    for (int i = 0; i < kMostLooked; i++, ++at) {
        if (at == by_size_.end() || std::get<0>(*at) != other) return 0;
        const auto hole = holes_.find(std::get<2>(*at));
        if (hole->second.moment <= until) return cut(hole, bytes);
    }
    return 0;
}

void PoolMemory::free(const Range &range, Stream stream, Moment moment) noexcept
{
    const uint64_t bytes = rounded(range.bytes);
    Spares::Nodes nodes = spares_.take();
    given_out_--;
    change(used_, 0, bytes);
    insert_joined(std::move(nodes), range.begin, {bytes, stream, stream == kNobody ? 0 : moment});
}

bool PoolMemory::waits_for(Stream stream) const
{
    const auto first = by_moment_.lower_bound({stream, 0, 0});
    return stream != kNobody && first != by_moment_.end() && std::get<0>(*first) == stream;
}

void PoolMemory::over(Stream stream, Moment until) noexcept
{
    while (waits_for(stream)) {
        const auto [whose, moment, begin] = *by_moment_.lower_bound({stream, 0, 0});
        if (moment > until) return;
        const auto hole = holes_.find(begin);
        const uint64_t bytes = hole->second.bytes;
        insert_joined(erase(hole), begin, {bytes, kNobody, 0});
    }
}

// Of a hole that is nobody's, so many bytes at most, but for a piece, which goes as a whole; no
// bytes where nothing of it can go.
PoolMemory::Range PoolMemory::part_to_release(const Range &hole, uint64_t most) const noexcept
{
    if (const auto *piece = piece_at(hole.begin))
        return piece->first == hole.begin && piece->second == hole.bytes ? hole : Range();
    const uint64_t begin = (hole.begin + kPage - 1) / kPage * kPage,
                   end = (hole.begin + hole.bytes) / kPage * kPage;
    if (end <= begin) return {};
    return {begin, std::min(end - begin, (most + kPage - 1) / kPage * kPage)};
}

// There is a spare node more than free() needs.
void PoolMemory::take_out(const Range &hole, const Range &part) noexcept
{
    const uint64_t before = part.begin - hole.begin, behind = hole.bytes - before - part.bytes;
    pieces_.erase(part.begin);
    change(reserved_, 0, part.bytes);
    Spares::Nodes nodes = erase(holes_.find(hole.begin));
    if (behind) insert(spares_.take(), part.begin + part.bytes, {behind, kNobody, 0});
    if (before)
        insert(std::move(nodes), hole.begin, {before, kNobody, 0});
    else
        put(std::move(nodes));
}

std::list<PoolMemory::Range> PoolMemory::release(uint64_t keep)
{
    std::list<Range> out, large;
    if (reserved_.now <= keep) return out;
    for (auto at = by_size_.upper_bound({kNobody, UINT64_MAX, UINT64_MAX});
         at != by_size_.begin();) {
        const auto [whose, bytes, begin] = *--at;
        if (whose != kNobody || bytes < kPage) break;
        large.push_back({begin, bytes});
    }
    spares_.reserve(given_out_ + large.size());

    // From here on nothing throws.
    while (!large.empty() && reserved_.now > keep) {
        const Range hole = large.front(), part = part_to_release(hole, reserved_.now - keep);
        if (part.bytes) {
            take_out(hole, part);
            large.front() = part;
            out.splice(out.end(), large, large.begin());
        } else {
            large.pop_front();
        }
    }
    return out;
}

bool PoolMemory::is_sound() const
{
    uint64_t nobodys = 0, free = 0, last = 0;
    for (const auto &[begin, hole] : holes_) {
        if (!hole.bytes || begin < last || !by_size_.contains({hole.stream, hole.bytes, begin}) ||
            !by_moment_.contains({hole.stream, hole.moment, begin}) ||
            (hole.stream == kNobody) != !hole.moment)
            return false;
        last = begin + hole.bytes;
        free += hole.bytes;
        if (hole.stream == kNobody) nobodys += hole.bytes;
    }
    return by_size_.size() == holes_.size() && by_moment_.size() == holes_.size() &&
           nobodys == nobodys_ && free + used_.now == reserved_.now;
}

}  // namespace rgpu::interpose
