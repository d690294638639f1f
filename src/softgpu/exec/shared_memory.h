// SPDX-License-Identifier: Apache-2.0
// A block's shared memory: pages of its own, and behind them some that fault, so that a kernel that
// runs past its end is stopped. Belongs to the block, and is kept for the next one.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rgpu::softgpu::exec {

class SharedMemory {
public:
    SharedMemory() = default;
    ~SharedMemory();
    SharedMemory(const SharedMemory &) = delete;
    SharedMemory &operator=(const SharedMemory &) = delete;

    // So many bytes, in whole pages; what lies there is anybody's. False: no memory.
    bool reserve(size_t bytes);
    uint8_t *data() const { return data_; }

private:
    void release();
    uint8_t *data_ = nullptr;
    size_t room_ = 0;   // mapped, without the guard
    size_t bytes_ = 0;  // of them, that may be touched
};

}  // namespace rgpu::softgpu::exec
