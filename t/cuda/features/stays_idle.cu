// SPDX-License-Identifier: Apache-2.0
// A stream that was waited for stays idle: whatever the server does by itself when the program
// rests, a query says so.
#include "check.h"

#include <unistd.h>

#include <cstdio>

__global__ void slow(int *p, long long ticks)
{
    for (long long start = clock64(); clock64() - start < ticks;) {}
    *p += 1;
}

int main()
{
    int *p, not_ready = 0;
    CHECK(cudaMalloc(&p, 8));
    cudaStream_t a, b;
    CHECK(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
    for (int round = 0; round < 200; round++) {
        slow<<<1, 1, 0, a>>>(p, 100000);
        CHECK(cudaStreamSynchronize(a));
        usleep(4500 + round * 10);
        // Work elsewhere, so that the answer is not known here.
        slow<<<1, 1, 0, b>>>(p + 1, 1000);
        if (cudaStreamQuery(a) != cudaSuccess) not_ready++;
    }
    CHECK(cudaDeviceSynchronize());
    printf("%d of 200 times not ready\n", not_ready);
    TRUE(not_ready == 0);
    puts("right");
}
