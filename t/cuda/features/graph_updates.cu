// SPDX-License-Identifier: Apache-2.0
// Kernels of an executable graph get other arguments before each launch: each launch computes with
// what was set last, and what cannot be set is told at once.
#include "check.h"

constexpr int kKernels = 8, kRounds = 60;

__global__ void put(int *out, int value, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] += value;
}
__global__ void other(int *out, int value, int n)
{
    if (threadIdx.x == 0 && blockIdx.x == 0) out[0] += 1000 * value * (n > 0);
}

static int *out;
static int value, n;
static void *arguments[] = {&out, &value, &n};

static cudaKernelNodeParams with(const void *function, unsigned grid, unsigned block = 32)
{
    cudaKernelNodeParams k = {};
    k.func = const_cast<void *>(function);
    k.gridDim = dim3(grid);
    k.blockDim = dim3(block);
    k.kernelParams = arguments;
    return k;
}

int main()
{
    constexpr int kInts = 32 * kRounds;
    CHECK(cudaMalloc(&out, kInts * sizeof(int)));
    CHECK(cudaMemset(out, 0, kInts * sizeof(int)));
    cudaGraph_t g;
    cudaGraphNode_t nodes[kKernels];
    CHECK(cudaGraphCreate(&g, 0));
    for (int i = 0; i < kKernels; i++) {
        const cudaKernelNodeParams k = with((void *)put, 1);
        CHECK(cudaGraphAddKernelNode(&nodes[i], g, i ? &nodes[i - 1] : nullptr, i ? 1 : 0, &k));
    }
    cudaGraphExec_t e;
    CHECK(cudaGraphInstantiate(&e, g, 0));

    // Round r adds r + i + 1 by kernel i to the first 32 * (r + 1) numbers.
    for (int r = 0; r < kRounds; r++) {
        for (int i = 0; i < kKernels; i++) {
            value = r + i + 1;
            n = 32 * (r + 1);
            const cudaKernelNodeParams k = with((void *)put, r + 1);
            CHECK(cudaGraphExecKernelNodeSetParams(e, nodes[i], &k));
            value = -1000000;  // what was set is a copy
        }
        CHECK(cudaGraphLaunch(e, nullptr));
    }
    static int got[kInts];
    CHECK(cudaMemcpy(got, out, sizeof got, cudaMemcpyDeviceToHost));
    for (int j = 0; j < kInts; j++) {
        int want = 0;
        for (int r = j / 32; r < kRounds; r++)
            for (int i = 0; i < kKernels; i++) want += r + i + 1;
        TRUE(got[j] == want);
    }

    // What a driver refuses, although it took the like before.
    value = 1, n = 32;
    const auto refused = [&](const cudaKernelNodeParams &k) {
        const cudaError_t r = cudaGraphExecKernelNodeSetParams(e, nodes[0], &k);
        (void)cudaGetLastError();
        return r != cudaSuccess;
    };
    TRUE(refused(with((void *)put, 0)));
    TRUE(refused(with((void *)put, 1, 0)));
    TRUE(refused(with((void *)put, 1, 4096)));
    cudaKernelNodeParams many = with((void *)put, 1);
    many.gridDim.y = 70000;
    TRUE(refused(many));
    many = with((void *)put, 1);
    many.sharedMemBytes = 1 << 30;
    TRUE(refused(many));
    CHECK(cudaStreamSynchronize(nullptr));

    // Another function, and the first again.
    CHECK(cudaMemset(out, 0, kInts * sizeof(int)));
    cudaKernelNodeParams k = with((void *)other, 1);
    CHECK(cudaGraphExecKernelNodeSetParams(e, nodes[0], &k));
    value = 5;
    CHECK(cudaGraphExecKernelNodeSetParams(e, nodes[0], &k));
    value = 1;
    k = with((void *)put, 1);
    for (int i = 1; i < kKernels; i++) CHECK(cudaGraphExecKernelNodeSetParams(e, nodes[i], &k));
    CHECK(cudaGraphLaunch(e, nullptr));
    CHECK(cudaGraphExecKernelNodeSetParams(e, nodes[0], &k));
    CHECK(cudaGraphLaunch(e, nullptr));
    CHECK(cudaMemcpy(got, out, sizeof got, cudaMemcpyDeviceToHost));
    TRUE(got[0] == 5000 + 15 && got[31] == 15 && got[32] == 0);

    // Nodes of another graph, and of none.
    cudaGraph_t g2;
    cudaGraphNode_t stranger;
    CHECK(cudaGraphCreate(&g2, 0));
    CHECK(cudaGraphAddKernelNode(&stranger, g2, nullptr, 0, &k));
    TRUE(cudaGraphExecKernelNodeSetParams(e, stranger, &k) != cudaSuccess);
    (void)cudaGetLastError();
    CHECK(cudaGraphDestroy(g2));
    CHECK(cudaGraphExecKernelNodeSetParams(e, nodes[0], &k));
    CHECK(cudaGraphExecDestroy(e));
    CHECK(cudaGraphDestroy(g));
    CHECK(cudaDeviceSynchronize());
    puts("right");
    return 0;
}
