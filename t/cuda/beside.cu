// SPDX-License-Identifier: Apache-2.0
// Large copies to pinned memory that nobody waits for yet, from eight threads: what follows them in
// their stream, or behind their event in another one, does not change what they bring; and other
// streams' small calls meanwhile bring what they should.
#include "check.h"

#include <atomic>
#include <random>
#include <thread>
#include <vector>

constexpr int kWords = (5 << 20) / sizeof(int);  // large, and no whole number of chunks' chunks

__global__ void fill(int *to, int first)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < kWords; i += gridDim.x * blockDim.x)
        to[i] = first + i;
}

static bool holds(const int *words, int first)
{
    for (int i = 0; i < kWords; i++)
        if (words[i] != first + i)
            return printf("word %d is %d, not %d\n", i, words[i], first + i), false;
    return true;
}

static void one_thread(int number, int rounds)
{
    std::mt19937 dice(number);
    cudaStream_t s, other;
    CHECK(cudaStreamCreateWithFlags(&s, number % 2 ? cudaStreamNonBlocking : cudaStreamDefault));
    CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    cudaEvent_t event;
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    int *device, *small, *host[2], *junk, word;
    CHECK(cudaMalloc(&device, kWords * sizeof(int)));
    CHECK(cudaMalloc(&small, sizeof(int)));
    for (int *&h : host) CHECK(cudaMallocHost(&h, kWords * sizeof(int)));
    CHECK(cudaMallocHost(&junk, kWords * sizeof(int)));
    const auto copy = [&](int *to) {
        CHECK(cudaMemcpyAsync(to, device, kWords * sizeof(int), cudaMemcpyDeviceToHost, s));
    };
    const auto set = [&](int first, cudaStream_t in) {
        fill<<<8, 64, 0, in>>>(device, first);
        CHECK(cudaGetLastError());
    };
    for (int round = 0; round < rounds; round++) {
        const int first = number * 1000003 + round * 7001, second = first + 12345;
        bool again = false;
        set(first, s);
        copy(host[0]);
        switch ((round + number) % 6) {
        case 0: set(-1, s); break;
        case 1:
            CHECK(cudaEventRecord(event, s));
            CHECK(cudaStreamWaitEvent(other, event, 0));
            set(-1, other);
            CHECK(cudaStreamSynchronize(other));
            break;
        case 2:
            CHECK(cudaEventRecord(event, s));
            for (cudaError_t e; (e = cudaEventQuery(event)) != cudaSuccess;)
                TRUE(e == cudaErrorNotReady);
            break;
        case 3:
            set(second, s);
            copy(host[1]);
            again = true;
            break;
        case 4:
            CHECK(cudaMemcpyAsync(device, junk, kWords * sizeof(int), cudaMemcpyHostToDevice, s));
            break;
        case 5:
            CHECK(cudaEventRecord(event, s));
            CHECK(cudaEventSynchronize(event));
            TRUE(holds(host[0], first));
            break;
        }
        const int sent = static_cast<int>(dice());
        CHECK(cudaMemcpyAsync(small, &sent, sizeof sent, cudaMemcpyHostToDevice, other));
        CHECK(cudaMemcpyAsync(&word, small, sizeof word, cudaMemcpyDeviceToHost, other));
        TRUE(word == sent);
        if (dice() % 2) {
            CHECK(cudaStreamSynchronize(s));
        } else {
            for (cudaError_t e; (e = cudaStreamQuery(s)) != cudaSuccess;)
                TRUE(e == cudaErrorNotReady);
        }
        TRUE(holds(host[0], first));
        TRUE(!again || holds(host[1], second));
    }
    CHECK(cudaFree(device));
    CHECK(cudaFree(small));
    for (int *h : host) CHECK(cudaFreeHost(h));
    CHECK(cudaFreeHost(junk));
    CHECK(cudaEventDestroy(event));
    CHECK(cudaStreamDestroy(s));
    CHECK(cudaStreamDestroy(other));
}

int main(int argc, char **argv)
{
    const int rounds = argc > 1 ? atoi(argv[1]) : 6;
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; i++) threads.emplace_back(one_thread, i, rounds);
    for (std::thread &t : threads) t.join();
    printf("beside: ok\n");
}
