// SPDX-License-Identifier: Apache-2.0
// The memory of one device, as addresses: a stretch of reserved address space whose pages are there
// only while something lies in them, so that a stale or wild pointer faults.
//
// Requests up to 1 MiB share pages of 2 MiB, in units of 512 bytes; larger ones have pages of their
// own. Fresh pages are zero: nothing of another tenant is ever seen.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <set>

#include "softgpu/driver/base/shared_file.h"

namespace rgpu::softgpu::driver {

class Arena {
public:
    static constexpr uint64_t kPage = uint64_t{2} << 20, kUnit = 512, kShared = uint64_t{1} << 20;

    // Who counts the memory: asked with whole pages, and may refuse.
    struct Account {
        virtual bool take(uint64_t bytes) = 0;
        virtual void give(uint64_t bytes) = 0;

    protected:
        ~Account() = default;
    };

    // [base, base + size) is reserved (PROT_NONE) by the caller, and whole pages. With a file of
    // that size, which is the caller's, the memory is the file's.
    Arena(uint64_t base, uint64_t size, Account &, int file = -1);

    // An address aligned to 512 bytes (large: 2 MiB), or 0 when memory or addresses are exhausted.
    uint64_t allocate(uint64_t bytes);
    // Of what allocate() gave, with the same size.
    void free(uint64_t address, uint64_t bytes);
    // Addresses alone, aligned, whole pages: nothing is counted, and whoever has them maps them
    // (virtual_memory.h).
    uint64_t reserve(uint64_t bytes, uint64_t alignment);
    // The same at this place; false where it is not free.
    bool reserve_at(uint64_t address, uint64_t bytes);
    void unreserve(uint64_t address, uint64_t bytes);
    void unmap_and_unreserve(uint64_t address, uint64_t bytes);
    // Moves what allocate() gave, and what shares its pages, into a file in memory, where it stays
    // until it is freed. Its place in the file is `offset`. Nothing may write to the pages
    // meanwhile.
    Result<SharedFileName> share(uint64_t address, uint64_t bytes, uint64_t &offset);
    // How many bytes a request of this size takes up: for what cannot be asked back.
    static uint64_t rounded(uint64_t bytes);

private:
    uint64_t take_addresses(uint64_t bytes, uint64_t alignment);
    void give_addresses(uint64_t address, uint64_t bytes);
    uint64_t take_pages(uint64_t bytes);
    void give_pages(uint64_t address, uint64_t bytes);
    void add_piece(uint64_t address, uint64_t bytes);
    void remove_piece(std::map<uint64_t, uint64_t>::iterator);
    bool map(uint64_t address, uint64_t bytes) const;
    void unmap(uint64_t address, uint64_t bytes) const;

    std::mutex mutex_;
    Account &account_;
    const uint64_t base_;
    const int file_;
    std::map<uint64_t, uint64_t> free_pages_;  // address -> bytes
    std::map<uint64_t, uint64_t> pieces_;      // free parts of shared pages: address -> bytes
    std::set<std::pair<uint64_t, uint64_t>> pieces_by_size_;  // (bytes, address)
    std::map<uint64_t, Fd> shared_;  // files of pages that were shared, by their first address
};

}  // namespace rgpu::softgpu::driver
