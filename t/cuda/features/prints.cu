// SPDX-License-Identifier: Apache-2.0
// printf() and assert() in kernels: text comes whole and in the order of a thread's calls; a failed
// assertion stays.
#include <cassert>

#include "check.h"

__global__ void speak(int base)
{
    printf("thread %d says %s, %5.2f, %c, %08x, %lld%%\n", base + (int)threadIdx.x,
           threadIdx.x % 2 ? "odd" : "even", 0.25 * threadIdx.x, 'a' + threadIdx.x, 0xBEEFu,
           1ll << 40);
}
__global__ void must(const int *p) { assert(p[threadIdx.x] < 3 && "values stay small"); }

int main()
{
    speak<<<1, 4>>>(10);
    CHECK(cudaDeviceSynchronize());
    int in[8] = {0, 1, 2, 0, 0, 3, 0, 0}, *p;
    CHECK(cudaMalloc(&p, sizeof in));
    CHECK(cudaMemcpy(p, in, sizeof in, cudaMemcpyHostToDevice));
    must<<<1, 4>>>(p);
    CHECK(cudaDeviceSynchronize());
    fflush(stdout);
    must<<<1, 8>>>(p);
    FAILS(cudaDeviceSynchronize(), cudaErrorAssert);
    FAILS(cudaMemset(p, 0, 4), cudaErrorAssert);
    return right();
}
