// SPDX-License-Identifier: Apache-2.0
// Events: order between streams, times, and what may be asked of which.
#include <atomic>
#include <chrono>
#include <thread>

#include "check.h"

static std::atomic<bool> asked{false};
static void CUDART_CB pause(void *ms)
{
    while (!asked) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(*(int *)ms));
}

__global__ void set(int *p, int v) { *p = v; }
__global__ void twice(int *p) { *p *= 2; }

int main()
{
    cudaStream_t a, b;
    cudaEvent_t start, end, untimed;
    CHECK(cudaStreamCreate(&a));
    CHECK(cudaStreamCreate(&b));
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&end));
    CHECK(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
    int *p, got, ms = 30;
    CHECK(cudaMalloc(&p, 4));
    CHECK(cudaEventQuery(end));  // never recorded: passed

    load_ahead(set);
    load_ahead(twice);
    CHECK(cudaEventRecord(start, a));
    CHECK(cudaLaunchHostFunc(a, pause, &ms));
    set<<<1, 1, 0, a>>>(p, 21);
    CHECK(cudaEventRecord(end, a));
    FAILS(cudaEventQuery(end), cudaErrorNotReady);
    asked = true;
    CHECK(cudaStreamWaitEvent(b, end, 0));
    twice<<<1, 1, 0, b>>>(p);
    CHECK(cudaMemcpyAsync(&got, p, 4, cudaMemcpyDeviceToHost, b));
    CHECK(cudaStreamSynchronize(b));
    TRUE(got == 42);
    float time = 0;
    CHECK(cudaEventElapsedTime(&time, start, end));
    TRUE(time >= 29 && time < 20000);
    CHECK(cudaEventRecord(untimed, a));
    CHECK(cudaEventSynchronize(untimed));
    FAILS(cudaEventElapsedTime(&time, start, untimed), cudaErrorInvalidResourceHandle);
    CHECK(cudaEventDestroy(start));
    CHECK(cudaEventDestroy(end));
    CHECK(cudaEventDestroy(untimed));
    return right();
}
