// SPDX-License-Identifier: Apache-2.0
// Which stretches of a space of addresses are free: whoever gives addresses out takes them from
// here and puts them back. No address is 0, which stands for "none". No lock.
//
// Memory of the process: what throws has changed nothing. Whoever takes may say how often parts of
// that will be put back: so many add() need no memory, and do not throw.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "util/spare_nodes.h"

namespace rgpu {

class FreeRanges {
public:
    struct Range {
        uint64_t begin = 0, bytes = 0;
    };

    // Stretches on both sides of a multiple of `boundary` are not joined; 0: there is none such.
    explicit FreeRanges(uint64_t boundary = 0) : boundary_(boundary) {}

    // These are free now, and were not. Returns the stretch that they are a part of. `promised`: so
    // many of the times that were promised to whoever took them.
    Range add(uint64_t begin, uint64_t bytes, size_t promised = 0);
    // The lowest that fits; 0 where none does. `alignment` is not 0.
    uint64_t take_lowest(uint64_t bytes, uint64_t alignment, size_t promise = 0);
    // The beginning of the smallest that fits; 0 where none does.
    uint64_t take_smallest(uint64_t bytes, size_t promise = 0);
    // Just these; false where they are not all free. Throws nothing for a whole stretch.
    bool take_at(uint64_t begin, uint64_t bytes);

    // So many times more; and fewer, after all.
    void promise(size_t times);
    void promise_less(size_t times) { promised_ -= times; }

private:
    using Ranges = std::map<uint64_t, uint64_t>;
    using BySize = std::set<std::pair<uint64_t, uint64_t>>;  // (bytes, begin)
    using Spares = SpareNodes<Ranges, BySize>;
    // Beyond those that were promised.
    static constexpr size_t kMostSpare = 64;

    void insert(Spares::Nodes &&, uint64_t begin, uint64_t bytes) noexcept;
    Spares::Nodes erase(Ranges::iterator) noexcept;
    void put(Spares::Nodes &&n) noexcept { spares_.put(std::move(n), promised_ + kMostSpare); }
    bool joins(uint64_t at) const { return !boundary_ || at % boundary_; }
    // Takes the middle out of a free stretch.
    void cut(Ranges::iterator, uint64_t begin, uint64_t bytes, size_t promise);

    const uint64_t boundary_;
    Ranges ranges_;  // by their beginning
    BySize by_size_;
    Spares spares_;  // as many as were promised, at least
    size_t promised_ = 0;
};

}  // namespace rgpu
