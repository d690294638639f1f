// SPDX-License-Identifier: Apache-2.0
#include "softgpu/driver/base/outside.h"

#include <sys/mman.h>

#include <algorithm>
#include <iterator>

namespace rgpu::softgpu::driver {

bool OutsideAddresses::reserve(uint64_t address, uint64_t bytes)
{
    void *const want = reinterpret_cast<void *>(address);
    void *const got = mmap(want, bytes, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1,
                           0);
    if (got == MAP_FAILED) return false;
    if (got != want) {
        munmap(got, bytes);  // Linux before 4.17 takes the address as a hint
        return false;
    }
    std::lock_guard lock(mutex_);
    held_[address] = bytes;
    begin_ = std::min(begin_.load(), address);
    end_ = std::max(end_.load(), address + bytes);
    return true;
}

bool OutsideAddresses::unreserve(uint64_t address, uint64_t bytes)
{
    std::lock_guard lock(mutex_);
    const auto at = held_.find(address);
    if (at == held_.end() || at->second != bytes) return false;
    held_.erase(at);
    munmap(reinterpret_cast<void *>(address), bytes);
    return true;
}

bool OutsideAddresses::contains(uint64_t address) const
{
    if (address < begin_.load(std::memory_order_relaxed) ||
        address >= end_.load(std::memory_order_relaxed))
        return false;
    std::lock_guard lock(mutex_);
    const auto next = held_.upper_bound(address);
    return next != held_.begin() && address - std::prev(next)->first < std::prev(next)->second;
}

}  // namespace rgpu::softgpu::driver
