// SPDX-License-Identifier: Apache-2.0
// What programs of the years before __syncwarp count on: a warp's lanes go through volatile shared
// memory in step, all loads of an instruction before the next one's stores.
#include "check.h"

constexpr int kThreads = 128;

// The last steps of the reduction in NVIDIA's examples of 2007.
__global__ void reduce(const int *in, int *out)
{
    __shared__ int s[kThreads + 32];
    const unsigned t = threadIdx.x;
    s[t] = in[t];
    if (t < 32) s[kThreads + t] = 0;
    __syncthreads();
    if (t < 64) s[t] += s[t + 64];
    __syncthreads();
    if (t < 32) {
        volatile int *v = s;
        v[t] += v[t + 32];
        v[t] += v[t + 16];
        v[t] += v[t + 8];
        v[t] += v[t + 4];
        v[t] += v[t + 2];
        v[t] += v[t + 1];
    }
    if (t == 0) *out = s[0];
}

// Every lane adds its partner's sum, which the partner changes in the same step (OpenMM).
__global__ void butterfly(const int *in, int *out)
{
    __shared__ volatile int sums[kThreads];
    const unsigned i = threadIdx.x;
    sums[i] = in[i];
    for (unsigned k = 16; k >= 1; k /= 2) sums[i] += sums[i ^ k];
    out[i] = sums[i];
}

// The scan within a warp: lanes that have no neighbour that far pause.
__global__ void scan(const int *in, int *out)
{
    __shared__ volatile int s[kThreads];
    const unsigned t = threadIdx.x, lane = t % 32;
    s[t] = in[t];
    if (lane >= 1) s[t] += s[t - 1];
    if (lane >= 2) s[t] += s[t - 2];
    if (lane >= 4) s[t] += s[t - 4];
    if (lane >= 8) s[t] += s[t - 8];
    if (lane >= 16) s[t] += s[t - 16];
    out[t] = s[t];
}

// Values go around the warp, one lane a step.
__global__ void rotate(const int *in, int *out)
{
    __shared__ volatile int s[kThreads];
    const unsigned t = threadIdx.x, next = t / 32 * 32 + (t + 1) % 32;
    s[t] = in[t];
    int sum = 0;
    for (int i = 0; i < 32; i++) {
        sum = sum * 3 + s[t];
        s[t] = s[next];
    }
    out[t] = sum;
}

// Each lane waits for the one before: they must not wait in step.
__global__ void chain(int *out)
{
    __shared__ volatile int s[kThreads];
    const unsigned t = threadIdx.x;
    s[t] = 0;
    __syncthreads();
    if (t % 32 == 31) {
        s[t] = 1;
    } else {
        while (s[t + 1] == 0) {}
        s[t] = s[t + 1] + 1;
    }
    out[t] = s[t];
}

// One atomic operation for all lanes that are together.
__global__ void aggregate(int *counter, int *out)
{
    const unsigned lane = threadIdx.x % 32, mask = __ballot_sync(~0u, threadIdx.x % 3 == 0);
    if (threadIdx.x % 3 == 0) {
        const int leader = __ffs(mask) - 1;
        int base = 0;
        if (lane == leader) base = atomicAdd(counter, __popc(mask));
        base = __shfl_sync(mask, base, leader);
        out[base + __popc(mask & ((1u << lane) - 1))] = threadIdx.x;
    }
}

int main()
{
    int in[kThreads], out[kThreads], *din, *dout, *dcounter;
    int total = 0;
    for (int i = 0; i < kThreads; i++) in[i] = (i * 37 + 11) % 101, total += in[i];
    CHECK(cudaMalloc(&din, sizeof in));
    CHECK(cudaMalloc(&dout, sizeof out));
    CHECK(cudaMalloc(&dcounter, 4));
    CHECK(cudaMemcpy(din, in, sizeof in, cudaMemcpyHostToDevice));
    const auto fetch = [&] { CHECK(cudaMemcpy(out, dout, sizeof out, cudaMemcpyDeviceToHost)); };

    reduce<<<1, kThreads>>>(din, dout);
    fetch();
    TRUE(out[0] == total);

    butterfly<<<1, kThreads>>>(din, dout);
    fetch();
    for (int i = 0; i < kThreads; i++) {
        int sum = 0;
        for (int k = 0; k < 32; k++) sum += in[i / 32 * 32 + k];
        TRUE(out[i] == sum);
    }

    scan<<<1, kThreads>>>(din, dout);
    fetch();
    for (int i = 0, sum = 0; i < kThreads; i++) {
        sum = i % 32 ? sum + in[i] : in[i];
        TRUE(out[i] == sum);
    }

    rotate<<<1, kThreads>>>(din, dout);
    fetch();
    for (int i = 0; i < kThreads; i++) {
        unsigned sum = 0;
        for (int k = 0; k < 32; k++) sum = sum * 3 + in[i / 32 * 32 + (i + k) % 32];
        TRUE(out[i] == static_cast<int>(sum));
    }

    chain<<<1, kThreads>>>(dout);
    fetch();
    for (int i = 0; i < kThreads; i++) TRUE(out[i] == 32 - i % 32);

    CHECK(cudaMemset(dcounter, 0, 4));
    aggregate<<<1, kThreads>>>(dcounter, dout);
    fetch();
    bool seen[kThreads] = {};
    for (int i = 0; i < (kThreads + 2) / 3; i++) {
        TRUE(out[i] % 3 == 0 && !seen[out[i]]);
        seen[out[i]] = true;
    }
    return right();
}
