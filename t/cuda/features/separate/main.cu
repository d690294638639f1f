// SPDX-License-Identifier: Apache-2.0
// Device code in two files (-rdc=true), linked: functions, variables and function pointers across
// them.
#include "../check.h"
#include "part.cuh"

static __device__ float offset = 1;
static __device__ float helper(float x) { return x * 2 + offset; }

__global__ void from_main(float *p)
{
    p[threadIdx.x] = scale(threadIdx.x) + helper(threadIdx.x) + chosen(factor);
    atomicAdd(&shared_counter, 10);
}

int main()
{
    float *p, got[8];
    CHECK(cudaMalloc(&p, 32));
    from_main<<<1, 8>>>(p);
    CHECK(cudaMemcpy(got, p, 32, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 8; i++) TRUE(got[i] == (i + 1000) * 2.5f + i * 2 + 1 + 1002.5f * 2.5f);
    launch_from_part(p);
    CHECK(cudaMemcpy(got, p, 32, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 8; i++) TRUE(got[i] == i + 1000);
    int counter;
    CHECK(cudaMemcpyFromSymbol(&counter, shared_counter, 4));
    TRUE(counter == 181);
    return right();
}
