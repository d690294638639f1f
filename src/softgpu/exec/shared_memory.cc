// SPDX-License-Identifier: Apache-2.0
// Shared memory of a block, mapped with a guard behind it.
#include "softgpu/exec/shared_memory.h"

#include <sys/mman.h>

#include "softgpu/exec/limits.h"

namespace rgpu::softgpu::exec {

SharedMemory::~SharedMemory() { release(); }

void SharedMemory::release()
{
    if (data_) munmap(data_, room_ + kSharedGuard);
    data_ = nullptr;
    room_ = bytes_ = 0;
}

bool SharedMemory::reserve(size_t bytes)
{
    bytes = (bytes + 4095) / 4096 * 4096;
    if (data_ && bytes == bytes_) return true;
    if (!data_ || bytes > room_) {
        release();
        // A kernel that uses none still gets an address, at which every access faults.
        void *map = mmap(nullptr, bytes + kSharedGuard, PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (map == MAP_FAILED) return false;
        data_ = static_cast<uint8_t *>(map);
        room_ = bytes;
    }
    if (bytes > bytes_ && mprotect(data_ + bytes_, bytes - bytes_, PROT_READ | PROT_WRITE) != 0)
        return false;
    if (bytes < bytes_ && mprotect(data_ + bytes, bytes_ - bytes, PROT_NONE) != 0) return false;
    bytes_ = bytes;
    return true;
}

}  // namespace rgpu::softgpu::exec
