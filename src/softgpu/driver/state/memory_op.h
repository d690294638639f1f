// SPDX-License-Identifier: Apache-2.0
// Values in memory that streams and graphs wait for and write: CUDA Driver API, "Stream Memory
// Operations".
#pragma once

#include "calls/cuda_api.h"

namespace rgpu::softgpu::driver {

// CUDA's own limit.
constexpr unsigned kMostMemoryOps = 256;

CUresult check(const CUstreamBatchMemOpParams &);
// On the calling thread; a wait ends when the value is there. Each is a barrier.
void perform(const CUstreamBatchMemOpParams &);

}  // namespace rgpu::softgpu::driver
