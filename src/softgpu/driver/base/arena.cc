// SPDX-License-Identifier: Apache-2.0
#include "softgpu/driver/base/arena.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

namespace rgpu::softgpu::driver {

namespace {

constexpr uint64_t round_up(uint64_t n, uint64_t unit) { return (n + unit - 1) / unit * unit; }

void *pointer(uint64_t address) { return reinterpret_cast<void *>(address); }

}  // namespace

Arena::Arena(uint64_t base, uint64_t size, Account &account, int file)
    : account_(account), base_(base), file_(file)
{
    free_pages_[base] = size;
}

bool Arena::map(uint64_t address, uint64_t bytes) const
{
    const int kind = file_ < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED;
    void *p = mmap(pointer(address), bytes, PROT_READ | PROT_WRITE, kind | MAP_FIXED, file_,
                   file_ < 0 ? 0 : static_cast<off_t>(address - base_));
    if (p == MAP_FAILED) return false;
    // A forked child cannot use the device; it shall not pay for its memory either.
    madvise(p, bytes, MADV_DONTFORK);
    madvise(p, bytes, MADV_HUGEPAGE);
    return true;
}

void Arena::unmap(uint64_t address, uint64_t bytes) const
{
    // At the process's limit of mappings it stays as it is: accesses then find no fault.
    (void)mmap(pointer(address), bytes, PROT_NONE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    if (file_ >= 0)
        fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  static_cast<off_t>(address - base_), static_cast<off_t>(bytes));
}

uint64_t Arena::rounded(uint64_t bytes)
{
    return round_up(bytes, bytes <= kShared ? kUnit : kPage);
}

uint64_t Arena::take_addresses(uint64_t bytes, uint64_t alignment)
{
    for (auto it = free_pages_.begin(); it != free_pages_.end(); ++it) {
        const auto [first, room] = *it;
        const uint64_t address = round_up(first, alignment), before = address - first;
        if (room < bytes || before > room - bytes) continue;
        free_pages_.erase(it);
        if (before) free_pages_[first] = before;
        if (const uint64_t rest = room - before - bytes) free_pages_[address + bytes] = rest;
        return address;
    }
    return 0;
}

void Arena::give_addresses(uint64_t address, uint64_t bytes)
{
    auto next = free_pages_.lower_bound(address);
    if (next != free_pages_.end() && address + bytes == next->first) {
        bytes += next->second;
        next = free_pages_.erase(next);
    }
    if (next != free_pages_.begin()) {
        auto before = std::prev(next);
        if (before->first + before->second == address) {
            before->second += bytes;
            return;
        }
    }
    free_pages_[address] = bytes;
}

uint64_t Arena::take_pages(uint64_t bytes)
{
    if (!account_.take(bytes)) return 0;
    const uint64_t address = take_addresses(bytes, kPage);
    if (address && map(address, bytes)) return address;
    if (address) give_addresses(address, bytes);
    account_.give(bytes);
    return 0;
}

void Arena::give_pages(uint64_t address, uint64_t bytes)
{
    unmap(address, bytes);
    shared_.erase(address);
    account_.give(bytes);
    give_addresses(address, bytes);
}

uint64_t Arena::reserve(uint64_t bytes, uint64_t alignment)
{
    std::lock_guard lock(mutex_);
    return take_addresses(bytes, alignment);
}

bool Arena::reserve_at(uint64_t address, uint64_t bytes)
{
    std::lock_guard lock(mutex_);
    auto it = free_pages_.upper_bound(address);
    if (address % kPage || it == free_pages_.begin()) return false;
    const auto [first, room] = *--it;
    const uint64_t before = address - first;
    if (before > room || bytes > room - before) return false;
    free_pages_.erase(it);
    if (before) free_pages_[first] = before;
    if (const uint64_t rest = room - before - bytes) free_pages_[address + bytes] = rest;
    return true;
}

void Arena::unreserve(uint64_t address, uint64_t bytes)
{
    std::lock_guard lock(mutex_);
    give_addresses(address, bytes);
}

void Arena::unmap_and_unreserve(uint64_t address, uint64_t bytes)
{
    unmap(address, bytes);
    unreserve(address, bytes);
}

Result<SharedFileName> Arena::share(uint64_t address, uint64_t bytes, uint64_t &offset)
{
    std::lock_guard lock(mutex_);
    const uint64_t base = address / kPage * kPage, size = bytes > kShared ? rounded(bytes) : kPage;
    offset = address - base;
    if (auto there = shared_.find(base); there != shared_.end()) return name_of(there->second);
    auto file = make_shared_file(size);
    if (!file) return std::move(file).error();
    for (uint64_t done = 0; done < size;) {
        const ssize_t n =
            pwrite(file->get(), pointer(base + done), size - done, static_cast<off_t>(done));
        if (n <= 0)
            return error(ErrorKind::exhausted, "moving device memory into a file: %s",
                         strerror(errno));
        done += static_cast<uint64_t>(n);
    }
    if (mmap(pointer(base), size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file->get(), 0) ==
        MAP_FAILED)
        return error(ErrorKind::exhausted, "mapping device memory: %s", strerror(errno));
    madvise(pointer(base), size, MADV_DONTFORK);
    const SharedFileName name = name_of(*file);
    shared_.emplace(base, std::move(*file));
    return name;
}

void Arena::add_piece(uint64_t address, uint64_t bytes)
{
    pieces_[address] = bytes;
    pieces_by_size_.emplace(bytes, address);
}

void Arena::remove_piece(std::map<uint64_t, uint64_t>::iterator it)
{
    pieces_by_size_.erase({it->second, it->first});
    pieces_.erase(it);
}

uint64_t Arena::allocate(uint64_t bytes)
{
    if (!bytes || bytes > (uint64_t{1} << 46)) return 0;
    const uint64_t size = rounded(bytes);
    std::lock_guard lock(mutex_);
    if (bytes > kShared) return take_pages(size);

    auto best = pieces_by_size_.lower_bound({size, 0});
    uint64_t address, room;
    if (best != pieces_by_size_.end()) {
        std::tie(room, address) = *best;
        remove_piece(pieces_.find(address));
    } else {
        address = take_pages(kPage);
        room = kPage;
        if (!address) return 0;
    }
    if (room > size) add_piece(address + size, room - size);
    return address;
}

void Arena::free(uint64_t address, uint64_t bytes)
{
    uint64_t size = rounded(bytes);
    std::lock_guard lock(mutex_);
    if (bytes > kShared) return give_pages(address, size);

    // Join with the free neighbours in the same page.
    const uint64_t page = address / kPage * kPage;
    auto next = pieces_.lower_bound(address);
    if (next != pieces_.end() && next->first == address + size && next->first < page + kPage) {
        size += next->second;
        remove_piece(next);
    }
    next = pieces_.lower_bound(address);
    if (next != pieces_.begin()) {
        auto before = std::prev(next);
        if (before->first >= page && before->first + before->second == address) {
            address = before->first;
            size += before->second;
            remove_piece(before);
        }
    }
    if (size == kPage)
        give_pages(page, kPage);
    else
        add_piece(address, size);
}

}  // namespace rgpu::softgpu::driver
