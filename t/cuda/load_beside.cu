// SPDX-License-Identifier: Apache-2.0
// Modules are loaded, and kernels used for the first time, while streams have host functions to
// come, and copies of what these write: NVIDIA's driver waits for all work of the context then, so
// the functions have to be run meanwhile.
#include "check.h"

#include <atomic>
#include <cstdio>
#include <string>
#include <thread>

#include <cuda.h>
#include <unistd.h>

#define DRIVER(call) TRUE((call) == CUDA_SUCCESS)

static std::atomic<int> calls;
static int *seen;
static void CUDART_CB function(void *)
{
    usleep(20000);
    calls++;
    *seen += 1;
}

__global__ void add(int *p) { *p += 10; }
template <int N> __global__ void first_used(int *p) { *p = N; }

template <int N> static void use(int round, int *p, cudaStream_t s)
{
    if (round == N) first_used<N><<<1, 1, 0, s>>>(p);
    if constexpr (N > 1) use<N - 1>(round, p, s);
}

static std::string code(int n)
{
    const std::string name = "store" + std::to_string(n);
    return ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry " + name +
           "(.param .u64 p) {\n.reg .u64 %a; .reg .u32 %v;\nld.param.u64 %a, [p]; mov.u32 %v, " +
           std::to_string(n) + ";\nst.global.u32 [%a], %v; ret; }\n";
}

int main()
{
    int *p, *q, *copied, got = 0, used = 0, was = 0;
    CHECK(cudaMalloc(&p, 4));
    CHECK(cudaMalloc(&q, 4));
    CHECK(cudaMalloc(&copied, 4));
    CHECK(cudaHostAlloc(&seen, 4, cudaHostAllocMapped));
    *seen = 0;
    cudaStream_t s;
    CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    add<<<1, 1, 0, s>>>(seen);
    CHECK(cudaStreamSynchronize(s));
    for (int round = 1; round <= 10; round++) {
        CHECK(cudaLaunchHostFunc(s, function, nullptr));
        CHECK(cudaLaunchHostFunc(s, function, nullptr));
        add<<<1, 1, 0, s>>>(seen);
        CHECK(cudaMemcpyAsync(copied, seen, 4, cudaMemcpyHostToDevice, s));
        CHECK(cudaLaunchHostFunc(s, function, nullptr));
        use<10>(round, q, s);
        // Another thread's calls come in between.
        std::thread other([&] {
            for (int i = 0; i < 100; i++) CHECK(cudaMemsetAsync(p, 0, 4, s));
        });
        CUmodule m;
        CUfunction f;
        DRIVER(cuModuleLoadData(&m, code(round).c_str()));
        DRIVER(cuModuleGetFunction(&f, m, ("store" + std::to_string(round)).c_str()));
        CHECK(cudaLaunchHostFunc(s, function, nullptr));
        other.join();
        void *arguments[] = {&p};
        DRIVER(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, arguments, nullptr));
        CHECK(cudaMemcpyAsync(&got, p, 4, cudaMemcpyDeviceToHost, s));
        CHECK(cudaMemcpyAsync(&used, q, 4, cudaMemcpyDeviceToHost, s));
        CHECK(cudaMemcpyAsync(&was, copied, 4, cudaMemcpyDeviceToHost, s));
        CHECK(cudaStreamSynchronize(s));
        EXPECT(got == round, "%d", got);
        EXPECT(used == round, "%d", used);
        EXPECT(calls == 4 * round, "%d", calls.load());
        EXPECT(*seen == 14 * round + 10, "%d in round %d", *seen, round);
        EXPECT(was == 14 * round + 8, "%d was copied in round %d", was, round);
        DRIVER(cuModuleUnload(m));
    }
    puts("right");
    return 0;
}
