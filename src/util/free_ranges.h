// SPDX-License-Identifier: Apache-2.0
// Which stretches of a space of addresses are free: whoever gives addresses out takes them from
// here and puts them back. No address is 0, which stands for "none". No lock.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>

namespace rgpu {

class FreeRanges {
public:
    struct Range {
        uint64_t begin = 0, bytes = 0;
    };

    // Stretches on both sides of a multiple of `boundary` are not joined; 0: there is none such.
    explicit FreeRanges(uint64_t boundary = 0) : boundary_(boundary) {}

    // These are free now, and were not. Returns the stretch that they are a part of.
    Range add(uint64_t begin, uint64_t bytes);
    // The lowest that fits; 0 where none does. `alignment` is not 0.
    uint64_t take_lowest(uint64_t bytes, uint64_t alignment);
    // The beginning of the smallest that fits; 0 where none does.
    uint64_t take_smallest(uint64_t bytes);
    // Just these; false where they are not all free.
    bool take_at(uint64_t begin, uint64_t bytes);

private:
    using Ranges = std::map<uint64_t, uint64_t>;
    void insert(uint64_t begin, uint64_t bytes);
    void erase(Ranges::iterator);
    bool joins(uint64_t at) const { return !boundary_ || at % boundary_; }
    // Takes the middle out of a free stretch.
    void cut(Ranges::iterator, uint64_t begin, uint64_t bytes);

    const uint64_t boundary_;
    Ranges ranges_;                                    // by their beginning
    std::set<std::pair<uint64_t, uint64_t>> by_size_;  // (bytes, begin)
};

}  // namespace rgpu
