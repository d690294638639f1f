// SPDX-License-Identifier: Apache-2.0
// Waiting for what is over already, and for what is not: the answers are right, and the first kind
// needs no server.
#include "check.h"

#include <cstdio>
#include <cstdlib>

__global__ void slow(int *p, long long ticks)
{
    for (long long start = clock64(); clock64() - start < ticks;) {}
    *p += 1;
}

int main()
{
    int *p;
    int host = 0;
    CHECK(cudaMalloc(&p, 4));
    CHECK(cudaMemset(p, 0, 4));
    cudaStream_t a, b;
    CHECK(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
    cudaEvent_t event, never;
    CHECK(cudaEventCreate(&event));
    CHECK(cudaEventCreate(&never));
    CHECK(cudaDeviceSynchronize());
    for (int round = 1; round <= 20; round++) {
        slow<<<1, 1, 0, a>>>(p, 2000000);
        CHECK(cudaEventRecord(event, a));
        // A stream that has nothing to do says nothing of the other.
        CHECK(cudaStreamSynchronize(b));
        switch (round % 4) {
        case 0: CHECK(cudaStreamSynchronize(a)); break;
        case 1: CHECK(cudaEventSynchronize(event)); break;
        case 2:
            while (cudaEventQuery(event) == cudaErrorNotReady) {}
            break;
        case 3: CHECK(cudaDeviceSynchronize()); break;
        }
        CHECK(cudaEventQuery(event));
        CHECK(cudaMemcpyAsync(&host, p, 4, cudaMemcpyDeviceToHost, b));
        CHECK(cudaStreamSynchronize(b));
        TRUE(host == round);
    }
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < 1000; i++) {
        CHECK(cudaStreamSynchronize(a));
        CHECK(cudaStreamQuery(a));
        CHECK(cudaEventQuery(event));
        CHECK(cudaEventSynchronize(event));
        CHECK(cudaEventQuery(never));
        CHECK(cudaDeviceSynchronize());
    }
    puts("ok");
}
