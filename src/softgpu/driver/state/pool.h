// A memory pool of stream-ordered allocation. Memory that is freed goes back to the device at once,
// so a pool holds nothing in reserve: it counts what allocate_from() (memory.h) takes.
#pragma once

#include <cstdint>
#include <mutex>

#include "calls/cuda_api.h"

namespace rgpu::softgpu::driver {

class Device;

// Any thread.
class Pool {
public:
    Pool(Device &d, bool is_default) : device(d), is_default(is_default) {}

    Device &device;
    const bool is_default;

    // Bytes that Arena::rounded() gave. False when the pool may not hold so many.
    bool count_taken(uint64_t bytes);
    void count_freed(uint64_t bytes);
    // INVALID_VALUE for what is no attribute, or none that a program may set.
    CUresult attribute(CUmemPool_attribute, void *value);
    CUresult set_attribute(CUmemPool_attribute, const void *value);
    uint64_t max_bytes = 0;  // 0: none; set before use

private:
    std::mutex mutex_;
    uint64_t used_ = 0, used_high_ = 0, threshold_ = 0;
    int reuse_[3] = {1, 1,
                     1};  // CU_MEMPOOL_ATTR_REUSE_*: accepted, nothing is ever reused out of order
};

}  // namespace rgpu::softgpu::driver
