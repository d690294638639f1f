// SPDX-License-Identifier: Apache-2.0
// The part of the band whose addresses the client gives out, as a model of what the client may say:
// which of them are memory, and how many pages it has to its credit. What it says is checked here
// before any of it is done.
//
// A page that nothing lies in any more is credit again. No driver, no lock, and no thread of its
// own.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "wire/band.h"

namespace rgpu::worker {

class Placed {
public:
    using Block = wire::Band::Block;

    Placed(uint64_t begin, uint64_t bytes) : begin_(begin), bytes_(bytes) {}

    // Pages of a device that the client may use from now on; and may no more, false where it has
    // not so many.
    void grant(int device, uint64_t pages) { unused_[device] += pages; }
    bool give_back(int device, uint64_t pages);
    uint64_t unused(int device) const;

    // Pages in a row, from an address on.
    struct Pages {
        uint64_t begin = 0, count = 0;
    };
    // The client has put an allocation there. Says which pages it needs that nothing lay in;
    // nothing at all where it may not be there, or the client has no credit for it.
    std::optional<Pages> allocate(const Block &);

    // The one that the address lies in, unless it is being freed.
    std::optional<Block> find(uint64_t address) const;
    // Whether nothing lies at the address, nor is being freed there.
    bool is_gone(uint64_t address) const;
    // To free one takes two steps, as work may have to end in between. First it is not found any
    // more.
    std::optional<Block> forget(uint64_t base);
    std::vector<Block> forget_all(uint32_t owner);
    // Then it is gone. Says which of its pages nothing lies in. Or it is found again, after all.
    Pages release(const Block &);
    void remember(const Block &b) { live_.at(b.base).leaves = false; }

    bool contains(uint64_t address) const { return address - begin_ < bytes_; }

private:
    struct Live {
        uint64_t bytes = 0;
        int32_t device = 0;
        uint32_t owner = 0;
        bool leaves = false;
    };
    struct Page {
        int32_t device = 0;
        uint32_t pieces = 0;  // 0: a part of what is larger
    };
    using Lives = std::map<uint64_t, Live>;
    Lives::const_iterator holder(uint64_t address) const;
    bool meets(uint64_t base, uint64_t bytes) const;

    const uint64_t begin_, bytes_;
    Lives live_;
    std::unordered_map<uint64_t, Page> pages_;
    std::map<int, uint64_t> unused_;  // pages, by device
};

}  // namespace rgpu::worker
