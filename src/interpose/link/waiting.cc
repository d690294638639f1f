// SPDX-License-Identifier: Apache-2.0
#include "interpose/link/waiting.h"

#include <atomic>
#include <cstdlib>

#include "calls/cuda_api.h"

namespace rgpu::interpose {

namespace {

thread_local int waiting;
std::atomic<bool> broken{false};

}  // namespace

bool every_call_waits()
{
    static const bool on = [] {
        const char *v = getenv("RGPU_SYNC");
        return v && *v && *v != '0';
    }();
    return on || waiting || broken.load(std::memory_order_relaxed);
}

// The errors of which cuda.h says "the process must be terminated".
void note_error(uint32_t result)
{
    switch (result) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED: broken.store(true, std::memory_order_relaxed);
    default: break;
    }
}

Waiting::Waiting(bool wait) : wait_(wait) { waiting += wait; }
Waiting::~Waiting() { waiting -= wait_; }

}  // namespace rgpu::interpose
