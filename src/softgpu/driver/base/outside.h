// SPDX-License-Identifier: Apache-2.0
// Addresses that a program asked for (cuMemAddressReserve) and that lie outside of this process's
// slot: the process holds them as long as they are reserved. Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>

namespace rgpu::softgpu::driver {

class OutsideAddresses {
public:
    // False where the process has something else there, or may not have so many.
    bool reserve(uint64_t address, uint64_t bytes);
    // Just what reserve() got; false for anything else.
    bool unreserve(uint64_t address, uint64_t bytes);
    bool contains(uint64_t address) const;

private:
    mutable std::mutex mutex_;
    std::map<uint64_t, uint64_t> held_;
    // All of them lie between: most questions are about others.
    std::atomic<uint64_t> begin_{UINT64_MAX}, end_{0};
};

}  // namespace rgpu::softgpu::driver
