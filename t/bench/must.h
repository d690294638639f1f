// SPDX-License-Identifier: Apache-2.0
// Calls that a benchmark cannot go on without: the first that fails is said on stderr, and ends the
// program with status 1.
#pragma once

#include <cstdio>
#include <cstdlib>

#include <cuda.h>
#include <cuda_runtime.h>

namespace rgpu::bench {

inline void must(const char *call, cudaError_t rc)
{
    if (rc == cudaSuccess) return;
    fprintf(stderr, "%s: %s\n", call, cudaGetErrorString(rc));
    exit(1);
}

inline void must(const char *call, CUresult rc)
{
    if (rc == CUDA_SUCCESS) return;
    fprintf(stderr, "%s: error %d\n", call, rc);
    exit(1);
}

}  // namespace rgpu::bench

#define MUST(call) rgpu::bench::must(#call, (call))
