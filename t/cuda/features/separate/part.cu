// SPDX-License-Identifier: Apache-2.0
// The other half of main.cu. Both files have a static function and a static variable of the same
// name.
#include "part.cuh"

__device__ int shared_counter = 100;
__constant__ float factor = 2.5f;
static __device__ float offset = 1000;
static __device__ float helper(float x) { return x + offset; }
__device__ float scale(float x) { return helper(x) * factor; }
__device__ Operation chosen = scale;

__global__ void from_part(float *p)
{
    p[threadIdx.x] = helper(threadIdx.x);
    if (threadIdx.x == 0) atomicAdd(&shared_counter, 1);
}

void launch_from_part(float *p) { from_part<<<1, 8>>>(p); }
