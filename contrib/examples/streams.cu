// SPDX-License-Identifier: Apache-2.0
// Two streams that copy and compute at the same time, timed with events.
//
//   streams [NUMBERS]
//
// Each stream does its half of the work in order: copy in, compute, copy out. The two streams know nothing of
// each other, so a GPU can copy for one while it computes for the other. Asynchronous copies
// need pinned host memory (cudaMallocHost). An event recorded in a stream says when all before it is done;
// here a third stream waits for both without the CPU, and adds up what they made.

#include "example.h"

__global__ void scale_and_shift(float *x, int n, float scale, float shift)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        x[i] = scale * x[i] + shift;
}

__global__ void add(const float *a, const float *b, float *sum, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        sum[i] = a[i] + b[i];
}

int main(int argc, char **argv)
{
    const int n = size_argument(argc, argv, "NUMBERS", 300007, "Works on NUMBERS floats in each of two streams.");
    const size_t bytes = n * sizeof(float);
    const int block = 256, grid = (n + block - 1) / block;
    print_device();

    float *host[2], *gpu[2], *host_sum, *gpu_sum;
    cudaStream_t stream[2], last;
    cudaEvent_t start[2], done[2];
    CHECK(cudaMallocHost(&host_sum, bytes));
    CHECK(cudaMalloc(&gpu_sum, bytes));
    CHECK(cudaStreamCreate(&last));
    for (int s = 0; s < 2; s++) {
        CHECK(cudaMallocHost(&host[s], bytes));
        CHECK(cudaMalloc(&gpu[s], bytes));
        CHECK(cudaStreamCreateWithFlags(&stream[s], cudaStreamNonBlocking));
        CHECK(cudaEventCreate(&start[s]));
        CHECK(cudaEventCreate(&done[s]));
        for (int i = 0; i < n; i++)
            host[s][i] = float(i % 1000 + s);
    }

    for (int s = 0; s < 2; s++) {
        CHECK(cudaEventRecord(start[s], stream[s]));
        CHECK(cudaMemcpyAsync(gpu[s], host[s], bytes, cudaMemcpyHostToDevice, stream[s]));
        scale_and_shift<<<grid, block, 0, stream[s]>>>(gpu[s], n, 2.0f, float(s + 1));
        CHECK(cudaGetLastError());
        CHECK(cudaMemcpyAsync(host[s], gpu[s], bytes, cudaMemcpyDeviceToHost, stream[s]));
        CHECK(cudaEventRecord(done[s], stream[s]));
    }
    for (cudaEvent_t event : done)
        CHECK(cudaStreamWaitEvent(last, event));
    add<<<grid, block, 0, last>>>(gpu[0], gpu[1], gpu_sum, n);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpyAsync(host_sum, gpu_sum, bytes, cudaMemcpyDeviceToHost, last));
    CHECK(cudaStreamSynchronize(last));

    int wrong = 0;
    for (int i = 0; i < n; i++) {
        const float expected[2] = {2.0f * (i % 1000) + 1, 2.0f * (i % 1000 + 1) + 2};
        wrong += host[0][i] != expected[0] || host[1][i] != expected[1];
        wrong += host_sum[i] != expected[0] + expected[1];
    }
    for (int s = 0; s < 2; s++) {
        float milliseconds;
        CHECK(cudaEventElapsedTime(&milliseconds, start[s], done[s]));
        printf("stream %d: %d numbers in, computed, and out in %.2f ms\n", s, n, milliseconds);
        wrong += !(milliseconds >= 0);
        CHECK(cudaEventDestroy(start[s]));
        CHECK(cudaEventDestroy(done[s]));
        CHECK(cudaStreamDestroy(stream[s]));
        CHECK(cudaFree(gpu[s]));
        CHECK(cudaFreeHost(host[s]));
    }
    CHECK(cudaStreamDestroy(last));
    CHECK(cudaFree(gpu_sum));
    CHECK(cudaFreeHost(host_sum));
    printf("third stream: waited for both, then added them\n");
    return verdict(wrong, 2 * n);
}
