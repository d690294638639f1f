// SPDX-License-Identifier: Apache-2.0
#include "softgpu/driver/state/memory_op.h"

#include <atomic>
#include <thread>
#include <type_traits>

#include "softgpu/driver/state/memory.h"

namespace rgpu::softgpu::driver {

namespace {

template <class Value> bool reached(Value seen, Value wanted, unsigned how)
{
    switch (how & 3) {
    case CU_STREAM_WAIT_VALUE_GEQ:
        return static_cast<std::make_signed_t<Value>>(seen - wanted) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ: return seen == wanted;
    case CU_STREAM_WAIT_VALUE_AND: return seen & wanted;
    default: return ~(seen | wanted);
    }
}

// CAN_FLUSH_REMOTE_WRITES is 0.
CUresult check_wait(unsigned flags)
{
    if (flags & CU_STREAM_WAIT_VALUE_FLUSH) return CUDA_ERROR_NOT_SUPPORTED;
    return flags & ~unsigned{CU_STREAM_WAIT_VALUE_NOR} ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult check_write(unsigned flags)
{
    return flags & ~unsigned{CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER} ? CUDA_ERROR_INVALID_VALUE
                                                                      : CUDA_SUCCESS;
}

template <class Value> void wait(CUdeviceptr address, Value wanted, unsigned how)
{
    // Whoever writes it, a kernel or the host, tells nobody.
    std::atomic_ref value(*reinterpret_cast<Value *>(address));
    while (!reached(value.load(), wanted, how)) std::this_thread::yield();
}

template <class Value> void write(CUdeviceptr address, Value value)
{
    std::atomic_ref(*reinterpret_cast<Value *>(address)).store(value);
}

}  // namespace

CUresult check(const CUstreamBatchMemOpParams &p)
{
    auto there = [&p](CUdeviceptr address, size_t bytes, bool write) {
        if (address % bytes || !device_may_touch(address, bytes, write))
            return CUDA_ERROR_INVALID_VALUE;
        return write ? check_write(p.writeValue.flags) : check_wait(p.waitValue.flags);
    };
    switch (p.operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32: return there(p.waitValue.address, 4, false);
    case CU_STREAM_MEM_OP_WAIT_VALUE_64: return there(p.waitValue.address, 8, false);
    case CU_STREAM_MEM_OP_WRITE_VALUE_32: return there(p.writeValue.address, 4, true);
    case CU_STREAM_MEM_OP_WRITE_VALUE_64: return there(p.writeValue.address, 8, true);
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES: return CUDA_ERROR_NOT_SUPPORTED;  // as above
    case CU_STREAM_MEM_OP_BARRIER: return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

void perform(const CUstreamBatchMemOpParams &p)
{
    const auto &wanted = p.waitValue;
    const auto &given = p.writeValue;
    switch (p.operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        return wait<cuuint32_t>(wanted.address, wanted.value, wanted.flags);
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        return wait<cuuint64_t>(wanted.address, wanted.value64, wanted.flags);
    case CU_STREAM_MEM_OP_WRITE_VALUE_32: return write<cuuint32_t>(given.address, given.value);
    case CU_STREAM_MEM_OP_WRITE_VALUE_64: return write<cuuint64_t>(given.address, given.value64);
    default: return;  // each of the above is a barrier
    }
}

}  // namespace rgpu::softgpu::driver
