// SPDX-License-Identifier: Apache-2.0
// Events that are polled until they are reached, and what else says that they must have been.
#include "check.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

// Ends when *go is not 0.
__global__ void held(volatile int *go)
{
    while (!*go) {}
}
__global__ void set(int *p, int value) { *p = value; }

static bool reached(cudaEvent_t event)
{
    const cudaError_t e = cudaEventQuery(event);
    TRUE(e == cudaSuccess || e == cudaErrorNotReady);
    return e == cudaSuccess;
}

int main()
{
    int *go, *p;
    CHECK(cudaMalloc(&go, 4));
    CHECK(cudaMalloc(&p, 4));
    cudaStream_t a, b, side;
    for (cudaStream_t *s : {&a, &b, &side})
        CHECK(cudaStreamCreateWithFlags(s, cudaStreamNonBlocking));
    // Loaded ahead: a driver that loads kernels when they are first used (CUDA_MODULE_LOADING)
    // would wait for the kernel that runs.
    set<<<1, 1>>>(p, 0);
    CHECK(cudaDeviceSynchronize());
    cudaEvent_t event, later;
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&later, cudaEventDisableTiming));

    // Not reached, however often it is asked; then reached, and what was before it is there.
    for (int round = 1; round <= 3; round++) {
        CHECK(cudaMemsetAsync(go, 0, 4, side));
        CHECK(cudaStreamSynchronize(side));
        held<<<1, 1, 0, a>>>(go);
        set<<<1, 1, 0, a>>>(p, round);
        CHECK(cudaEventRecord(event, a));
        for (int i = 0; i < 2000; i++) TRUE(!reached(event));
        CHECK(cudaMemsetAsync(go, 1, 4, side));
        while (!reached(event)) {}
        int value = 0;
        CHECK(cudaMemcpyAsync(&value, p, 4, cudaMemcpyDeviceToHost, side));
        CHECK(cudaStreamSynchronize(side));
        TRUE(value == round);
    }

    // Another stream waits for it and is waited for: it has been reached, whatever was known
    // before.
    for (int round = 0; round < 100; round++) {
        CHECK(cudaMemsetAsync(go, 0, 4, side));
        CHECK(cudaStreamSynchronize(side));
        held<<<1, 1, 0, a>>>(go);
        CHECK(cudaEventRecord(event, a));
        CHECK(cudaStreamWaitEvent(b, event, 0));
        set<<<1, 1, 0, b>>>(p, round);
        CHECK(cudaEventRecord(later, b));
        TRUE(!reached(event) && !reached(later) && !reached(event));
        CHECK(cudaMemsetAsync(go, 1, 4, side));
        if (round % 2)
            CHECK(cudaStreamSynchronize(b));
        else
            while (!reached(later)) {}
        TRUE(reached(event));
    }

    // Recorded again while it is polled.
    CHECK(cudaMemsetAsync(go, 0, 4, side));
    CHECK(cudaStreamSynchronize(side));
    CHECK(cudaEventRecord(event, b));
    while (!reached(event)) {}
    held<<<1, 1, 0, a>>>(go);
    CHECK(cudaEventRecord(event, a));
    TRUE(!reached(event) && !reached(event));
    CHECK(cudaEventRecord(event, b));
    while (!reached(event)) {}
    CHECK(cudaEventRecord(event, a));
    TRUE(!reached(event) && !reached(event));
    CHECK(cudaMemsetAsync(go, 1, 4, side));
    while (!reached(event)) {}

    // More than can be watched.
    CHECK(cudaMemsetAsync(go, 0, 4, side));
    CHECK(cudaStreamSynchronize(side));
    held<<<1, 1, 0, a>>>(go);
    std::vector<cudaEvent_t> many(100);
    for (cudaEvent_t &e : many) {
        CHECK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
        CHECK(cudaEventRecord(e, a));
    }
    for (int i = 0; i < 3; i++)
        for (cudaEvent_t e : many) TRUE(!reached(e));
    CHECK(cudaMemsetAsync(go, 1, 4, side));
    for (cudaEvent_t e : many)
        while (!reached(e)) {}
    for (cudaEvent_t e : many) CHECK(cudaEventDestroy(e));

    // From several threads.
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; t++)
        threads.emplace_back([] {
            cudaStream_t s;
            cudaEvent_t e;
            int *mine, value = 0;
            CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
            CHECK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
            CHECK(cudaMalloc(&mine, 4));
            for (int i = 1; i <= 50; i++) {
                set<<<1, 1, 0, s>>>(mine, i);
                CHECK(cudaEventRecord(e, s));
                while (!reached(e)) {}
                CHECK(cudaMemcpyAsync(&value, mine, 4, cudaMemcpyDeviceToHost, s));
                TRUE(value == i);
            }
        });
    for (std::thread &t : threads) t.join();
    puts("ok");
}
