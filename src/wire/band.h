// SPDX-License-Identifier: Apache-2.0
// A stretch of addresses as device memory: which of them are given out, to what size, and which
// pages have to be there for it. Whoever has the memory puts the pages there (Pages). Both sides
// give out addresses so: a worker those of its band, a client those that a worker left to it.
//
// Requests up to 1 MiB share pages of 2 MiB, in units of 512 bytes; larger ones have pages of their
// own. A page that nothing lies in any more is taken away; one of them a device keeps while other
// shared pages of it are in use, as what comes next would bring it back.
//
// Memory of the process: what throws has changed nothing. What gives memory back needs none, and
// throws only where Pages::take does.
//
// No lock, and no thread of its own.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "calls/cuda_api.h"
#include "util/free_ranges.h"

namespace rgpu::wire {

class Band {
public:
    static constexpr uint64_t kPage = uint64_t{2} << 20, kUnit = 512, kShares = uint64_t{1} << 20;

    // Puts memory at addresses, whole pages, and takes away what it put there at once.
    struct Pages {
        virtual CUresult put(uint64_t address, uint64_t bytes, int device) = 0;
        virtual void take(uint64_t address, uint64_t bytes, int device) = 0;

    protected:
        ~Pages() = default;
    };

    // The addresses are whole pages, and nobody else's.
    Band(uint64_t base, uint64_t bytes, Pages &pages);

    // One allocation: as many bytes as were asked for, and whoever it belongs to.
    struct Block {
        uint64_t base = 0, bytes = 0;
        int device = 0;
        uint32_t owner = 0;
    };
    // Allocations by their base.
    struct Live {
        uint64_t bytes = 0;
        int32_t device = 0;
        uint32_t owner = 0;
    };
    using Lives = std::map<uint64_t, Live>;
    static Block block_of(const Lives::value_type &l)
    {
        return {l.first, l.second.bytes, l.second.device, l.second.owner};
    }

    // No addresses are left: the memory may be had elsewhere.
    static constexpr CUresult kNoAddresses = CUDA_ERROR_MAP_FAILED;
    // Memory that is aligned to 512 bytes, larger than 1 MiB to 2 MiB. Fails with what Pages says,
    // and with kNoAddresses.
    CUresult allocate(int device, uint32_t owner, uint64_t bytes, uint64_t &address);
    // The one that the address lies in.
    std::optional<Block> find(uint64_t address) const;
    // To free one takes two steps, as work may have to end in between. First it is not known any
    // more, but nobody else gets its memory.
    std::optional<Block> forget(uint64_t base);
    std::vector<Block> forget_all(uint32_t owner);
    // The same, into a table of the caller's, which needs no memory. Whether it was known.
    bool move_to(Lives &, uint64_t base);
    void move_all_to(Lives &, uint32_t owner);
    // Then its memory is free; or it is known again, after all.
    void release(const Block &);
    void remember(const Block &);

    // Whole pages for whoever divides them up, and some of them back, each once.
    CUresult add_pages(int device, uint64_t bytes, uint64_t &address)
    {
        return add_pages(device, bytes, address, bytes / kPage);
    }
    void drop_pages(int device, uint64_t address, uint64_t bytes)
    {
        drop_pages(device, address, bytes, bytes / kPage);
    }

    // Gives up the pages that nothing lies in.
    void drop_spares();

    // Addresses alone, aligned, whole pages; 0 where none are left. Whoever has them puts memory
    // there.
    uint64_t reserve(uint64_t bytes, uint64_t alignment);
    bool reserve_at(uint64_t address, uint64_t bytes);
    void unreserve(uint64_t address, uint64_t bytes);

    bool contains(uint64_t address) const { return address - base_ < bytes_; }
    // Where the pages begin that hold an allocation.
    static uint64_t page_of(uint64_t address) { return address / kPage * kPage; }
    static uint64_t rounded(uint64_t bytes, uint64_t unit)
    {
        return (bytes + unit - 1) / unit * unit;
    }

private:
    struct Shared {
        FreeRanges pieces{kPage};
        std::unordered_map<uint64_t, uint32_t> used;  // page -> pieces that lie in it
        uint64_t spare = 0;                           // a page that nothing lies in; 0: none
        size_t pages_in_use() const { return used.size() - (spare ? 1 : 0); }
    };
    CUresult put_pages(int device, uint64_t address, uint64_t bytes);
    // They come back in so many parts, at most.
    CUresult add_pages(int device, uint64_t bytes, uint64_t &address, size_t parts);
    void drop_pages(int device, uint64_t address, uint64_t bytes, size_t parts);
    CUresult allocate_small(int device, uint64_t bytes, uint64_t &address);
    CUresult add_shared_page(Shared &, int device, uint64_t bytes, uint64_t &address);
    void release_small(const Block &);
    void take_page(uint64_t page, int device);
    bool drop_spare(Shared &, int device);

    const uint64_t base_, bytes_;
    Pages &pages_;
    FreeRanges free_;               // whole pages
    std::map<int, Shared> shared_;  // by device
    Lives live_;
};

}  // namespace rgpu::wire
