// SPDX-License-Identifier: Apache-2.0
// Facts of functions and memory that a program asks for again and again: they follow what the
// program changes.
#include "check.h"

#include <cstdio>
#include <cstdlib>

__global__ void shared_kernel(int *p)
{
    extern __shared__ int words[];
    words[threadIdx.x] = *p;
    __syncthreads();
    *p = words[0] + 1;
}

__global__ void __launch_bounds__(128) small_kernel(int *p) { *p += 1; }

static int blocks(int threads, size_t shared)
{
    int n = -1;
    CHECK((cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, shared_kernel, threads, shared)));
    return n;
}

static size_t available()
{
    size_t free = 0, total = 0;
    CHECK(cudaMemGetInfo(&free, &total));
    TRUE(free <= total);
    return free;
}

int main()
{
    for (int round = 0; round < 3; round++) {
        cudaFuncAttributes a;
        CHECK(cudaFuncGetAttributes(&a, small_kernel));
        TRUE(a.maxThreadsPerBlock == 128);
        CHECK(cudaFuncGetAttributes(&a, shared_kernel));
        TRUE(a.maxThreadsPerBlock > 128);
    }
    const int few = blocks(1024, 0), many = blocks(64, 0);
    TRUE(few >= 1 && many >= few);
    for (int i = 0; i < 3; i++) TRUE(blocks(1024, 0) == few && blocks(64, 0) == many);

    // More shared memory than a block has unless asked for.
    constexpr int kMore = 60 << 10;
    CHECK(cudaFuncSetAttribute(shared_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kMore));
    cudaFuncAttributes a;
    CHECK(cudaFuncGetAttributes(&a, shared_kernel));
    TRUE(a.maxDynamicSharedSizeBytes == kMore);
    TRUE(blocks(64, kMore) >= 1);

    // What this program does to the memory is in the next answer.
    constexpr size_t kBytes = 8 << 20;
    const size_t before = available();
    TRUE(available() == before);
    for (int i = 0; i < 5; i++) {
        int *p;
        CHECK(cudaMalloc(&p, kBytes));
        TRUE(available() + kBytes <= before);
        TRUE(available() + kBytes <= before);
        CHECK(cudaFree(p));
        TRUE(available() == before);
    }
    for (int i = 0; i < 1000; i++) available();
    puts("ok");
}
