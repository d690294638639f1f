// SPDX-License-Identifier: Apache-2.0
// What a stream brings must arrive though the program asks for nothing: a host function that it
// waits for, and a copy to pinned memory whose bytes it watches. Ends with 0 when both came within
// ten seconds.
#include "check.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>

static std::atomic<int> reached;

template <class Condition> static bool comes(Condition condition)
{
    auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!condition())
        if (std::chrono::steady_clock::now() > limit) return false;
    return true;
}

int main()
{
    cudaStream_t stream;
    volatile int *host;
    int *device, answer = 42;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMallocHost((void **)&host, sizeof *host));
    CHECK(cudaMalloc((void **)&device, sizeof *device));
    for (int round = 0; round < 5; round++) {
        *host = reached = 0;
        CHECK(cudaMemcpy(device, &answer, sizeof answer, cudaMemcpyHostToDevice));
        CHECK(cudaStreamSynchronize(stream));
        // Long enough for the client to have gone to sleep.
        std::this_thread::sleep_for(std::chrono::milliseconds(60));
        CHECK(cudaLaunchHostFunc(
            stream, [](void *) { reached = 1; }, nullptr));
        if (!comes([] { return reached == 1; })) {
            fprintf(stderr, "round %d: the host function did not run\n", round);
            return 1;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(60));
        CHECK(cudaMemcpyAsync((void *)host, device, sizeof answer, cudaMemcpyDeviceToHost, stream));
        if (!comes([&] { return *host == 42; })) {
            fprintf(stderr, "round %d: the copy did not arrive\n", round);
            return 1;
        }
    }
    puts("both came unasked");
    return 0;
}
