// SPDX-License-Identifier: Apache-2.0
// A table of device functions of which a program calls some: libraries choose so among their
// variants. Together they are big enough that the software GPU compiles each at its first call.
#include "check.h"

constexpr int kFunctions = 8, kThreads = 96, kBlocks = 6, kRounds = 500;

__shared__ unsigned words[kThreads];

// Its steps are written out one by one, so that each function has much code.
template <int N> __host__ __device__ unsigned work(unsigned x)
{
#pragma unroll
    for (int i = 0; i < kRounds; ++i) x = (x ^ (N + i * 2654435761u)) * 2246822519u + (x >> 15);
    return x;
}

// All threads of a block meet in it, so all must call the same one.
template <int N> __noinline__ __device__ unsigned meets(unsigned x)
{
    words[threadIdx.x] = work<N>(x);
    __syncthreads();
    const unsigned next = words[(threadIdx.x + 1) % kThreads];
    return __shfl_xor_sync(~0u, next, 1);
}

// Any thread may call it. One function calls another by the table, too.
template <int N> __noinline__ __device__ unsigned alone(unsigned x) { return work<N>(x) + N; }

using Function = unsigned (*)(unsigned);
__device__ Function table[kFunctions] = {meets<0>, meets<1>, meets<2>, alone<3>,
                                         alone<4>, alone<5>, alone<6>, alone<7>};

__global__ void call(const unsigned *which, unsigned *out)
{
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned first = table[blockIdx.x % 2](i);  // together
    out[i] = table[which[i]](first);                  // each its own
}

template <int N> unsigned met(unsigned i)
{
    const unsigned block = i / kThreads * kThreads, lane = (i % kThreads) ^ 1;
    return work<N>(block + (lane + 1) % kThreads);
}

int main()
{
    constexpr int kAll = kBlocks * kThreads;
    std::vector<unsigned> which(kAll), out(kAll);
    for (int i = 0; i < kAll; ++i) which[i] = i % 3 ? 4 : 6;
    unsigned *whose, *results;
    CHECK(cudaMalloc(&whose, kAll * sizeof *whose));
    CHECK(cudaMalloc(&results, kAll * sizeof *results));
    CHECK(cudaMemcpy(whose, which.data(), kAll * sizeof *whose, cudaMemcpyHostToDevice));
    for (int launch = 0; launch < 2; ++launch) {
        call<<<kBlocks, kThreads>>>(whose, results);
        CHECK(cudaMemcpy(out.data(), results, kAll * sizeof *results, cudaMemcpyDeviceToHost));
        for (int i = 0; i < kAll; ++i) {
            const unsigned first = i / kThreads % 2 ? met<1>(i) : met<0>(i);
            const unsigned wanted = i % 3 ? work<4>(first) + 4 : work<6>(first) + 6;
            if (out[i] == wanted) continue;
            printf("thread %d: %u, not %u\n", i, out[i], wanted);
            return 1;
        }
    }
    return right();
}
