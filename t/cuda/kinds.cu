// SPDX-License-Identifier: Apache-2.0
// Programs of several kinds, by what they ask of the link to their GPU.
//
//   kinds launches   many kernels are posted, and waited for now and then
//   kinds small      copies of four bytes each way, and a kernel between
//   kinds large      megabytes to the GPU and back, which do not shrink
//   kinds threads    four threads with a stream each: a kernel, a copy to the host, a wait
//   kinds overlap    kernels of some milliseconds, and beside them the copies for the next ones
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

#include "check.h"

__global__ void count(uint32_t *all) { all[threadIdx.x]++; }

__global__ void work(uint32_t *all, int rounds)
{
    uint32_t x = threadIdx.x;
    for (int i = 0; i < rounds; i++) x = x * 1664525 + 1013904223;
    all[threadIdx.x] = x | 1;
}

static constexpr size_t kThreads = 32;

static uint32_t *numbers(size_t bytes = kThreads * sizeof(uint32_t))
{
    uint32_t *there;
    CHECK(cudaMalloc(&there, bytes));
    CHECK(cudaMemset(there, 0, bytes));
    return there;
}

static std::vector<uint32_t> noise(size_t bytes)
{
    std::mt19937 dice(1);
    std::vector<uint32_t> all(bytes / sizeof(uint32_t));
    for (auto &one : all) one = static_cast<uint32_t>(dice());
    return all;
}

static void launches()
{
    constexpr int kSteps = 150, kEach = 50;
    uint32_t *there = numbers(), here = 0;
    for (int step = 0; step < kSteps; step++) {
        for (int i = 0; i < kEach; i++) count<<<1, kThreads>>>(there);
        CHECK(cudaDeviceSynchronize());
    }
    CHECK(cudaMemcpy(&here, there, sizeof here, cudaMemcpyDeviceToHost));
    TRUE(here == kSteps * kEach);
}

static void small()
{
    uint32_t *there = numbers(), here = 0;
    for (uint32_t i = 0; i < 300; i++) {
        TRUE(here == i);
        CHECK(cudaMemcpy(there, &here, sizeof here, cudaMemcpyHostToDevice));
        count<<<1, kThreads>>>(there);
        CHECK(cudaMemcpy(&here, there, sizeof here, cudaMemcpyDeviceToHost));
    }
}

static void large()
{
    constexpr size_t kBytes = 8 << 20;
    uint32_t *there = numbers(kBytes);
    const std::vector<uint32_t> out = noise(kBytes);
    std::vector<uint32_t> back(out.size());
    for (int i = 0; i < 3; i++) {
        CHECK(cudaMemcpy(there, out.data(), kBytes, cudaMemcpyHostToDevice));
        CHECK(cudaMemcpy(back.data(), there, kBytes, cudaMemcpyDeviceToHost));
        TRUE(out == back);
    }
}

static void thread(uint32_t *here)
{
    constexpr int kSteps = 150;
    constexpr size_t kBytes = 16 << 10;
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    uint32_t *there = numbers(kBytes);
    CHECK(cudaDeviceSynchronize());
    for (int step = 0; step < kSteps; step++) {
        count<<<1, kThreads, 0, stream>>>(there);
        CHECK(cudaMemcpyAsync(here, there, kBytes, cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
        TRUE(*here == uint32_t(step) + 1);
    }
}

static void threads()
{
    std::vector<std::thread> all;
    uint32_t *here;
    CHECK(cudaHostAlloc(&here, 4 * (16 << 10), 0));
    for (int i = 0; i < 4; i++) all.emplace_back(thread, here + i * (4 << 10));
    for (auto &one : all) one.join();
}

static void overlap()
{
    constexpr size_t kBytes = 256 << 10;
    constexpr int kSteps = 20, kRounds = 20000;
    uint32_t *there = numbers(), *input = numbers(kBytes), here = 0;
    cudaStream_t copies;
    CHECK(cudaStreamCreateWithFlags(&copies, cudaStreamNonBlocking));
    const std::vector<uint32_t> out = noise(kBytes);
    for (int step = 0; step < kSteps; step++) {
        CHECK(cudaMemcpyAsync(input, out.data(), kBytes, cudaMemcpyHostToDevice, copies));
        work<<<1, kThreads>>>(there, kRounds);
        if (step % 4 == 3) CHECK(cudaDeviceSynchronize());
    }
    CHECK(cudaMemcpy(&here, there, sizeof here, cudaMemcpyDeviceToHost));
    TRUE(here & 1);
}

int main(int argc, char **argv)
{
    const std::string kind = argc > 1 ? argv[1] : "";
    const struct {
        const char *name;
        void (*run)();
    } kinds[] = {{"launches", launches},
                 {"small", small},
                 {"large", large},
                 {"threads", threads},
                 {"overlap", overlap}};
    for (const auto &one : kinds)
        if (kind == one.name) {
            one.run();
            puts("ok");
            return 0;
        }
    fprintf(stderr, "kinds: launches, small, large, threads or overlap\n");
    return 2;
}
