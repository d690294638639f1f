// SPDX-License-Identifier: Apache-2.0
// A memory pool of stream-ordered allocation. Memory that is freed goes back to the device at once,
// so a pool holds nothing in reserve: it counts what allocate_from() (memory.h) takes.
//
// A pool that other processes may be given has its memory in a file (CU_MEM_HANDLE_TYPE_POSIX_FILE_
// DESCRIPTOR). Another process maps that file whole, and finds in it what it is told of.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "calls/cuda_api.h"
#include "util/fd.h"

namespace rgpu::softgpu::driver {

class Arena;
class Device;

// Any thread.
class Pool {
public:
    Pool(Device &d, bool is_default);
    ~Pool();

    Device &device;
    const bool is_default;

    // Before use. Its memory in a file of so many bytes, or another process's such pool. False
    // where there is no room.
    bool make_exportable(uint64_t bytes);
    bool import(Fd file, uint64_t bytes);
    const Fd &file() const { return file_; }  // none: it is not exportable
    bool is_imported() const { return file_ && !own_; }
    uint64_t base() const { return base_; }
    uint64_t bytes() const { return bytes_; }
    // Where its memory is taken from; not of an imported one.
    Arena &arena();

    // Bytes that Arena::rounded() gave. False when the pool may not hold so many.
    bool count_taken(uint64_t bytes);
    void count_freed(uint64_t bytes);
    // INVALID_VALUE for what is no attribute, or none that a program may set.
    CUresult attribute(CUmemPool_attribute, void *value);
    CUresult set_attribute(CUmemPool_attribute, const void *value);
    uint64_t max_bytes = 0;  // 0: none; set before use

private:
    bool reserve(uint64_t bytes);

    Fd file_;
    uint64_t base_ = 0, bytes_ = 0;  // where the file is
    std::unique_ptr<Arena> own_;
    std::mutex mutex_;
    uint64_t used_ = 0, used_high_ = 0, threshold_ = 0;
    int reuse_[3] = {1, 1,
                     1};  // CU_MEMPOOL_ATTR_REUSE_*: accepted, nothing is ever reused out of order
};

}  // namespace rgpu::softgpu::driver
