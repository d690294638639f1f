// SPDX-License-Identifier: Apache-2.0
// A host function that ends while the program begins to wait for its stream: its end must get to
// the GPU server at whatever moment that is. Another one behind it is still expected, and the
// program has asked something in between.
#include <cuda_runtime.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#define CHECK(call) \
    do { \
        cudaError_t e = (call); \
        if (e != cudaSuccess) printf("%s: %s\n", #call, cudaGetErrorName(e)), exit(1); \
    } while (0)

using Clock = std::chrono::steady_clock;

static std::atomic<long> until{0};  // when the first function ends; 0: not known yet
static std::atomic<bool> reached{false};

static long now()
{
    return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch())
        .count();
}

static void CUDART_CB first(void *)
{
    reached = true;
    while (!until || now() < until) {}
}
static void CUDART_CB second(void *count) { ++*static_cast<int *>(count); }

int main()
{
    constexpr int kRounds = 600;
    cudaStream_t s;
    CHECK(cudaStreamCreate(&s));
    int count = 0;
    for (int i = 0; i < kRounds; i++) {
        until = 0, reached = false;
        CHECK(cudaLaunchHostFunc(s, first, nullptr));
        CHECK(cudaLaunchHostFunc(s, second, &count));
        do
            if (cudaStreamQuery(s) != cudaErrorNotReady) return 1;
        while (!reached);
        // Whoever else reads the answers has time to notice that one came.
        for (long start = now(); now() < start + 200'000;) {}
        until = now() +
                i % 60 * 1000;  // before, while and after the call below sends what it has to say
        CHECK(cudaStreamSynchronize(s));
        if (count != i + 1) return printf("%d functions ran, not %d\n", count, i + 1), 1;
    }
    CHECK(cudaStreamDestroy(s));
    printf("host_race: ok\n");
}
