// SPDX-License-Identifier: Apache-2.0
// How a program of PyTorch's kind starts: what its runtime asks of the devices and the memory, two
// kernels of a module that was never used, and their result.
#include "check.h"

#include <cstdio>
#include <cstdlib>
#include <vector>

__global__ void fill(float *p, float value, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) p[i] = value;
}

__global__ void add(float *p, float value, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) p[i] += value;
}

int main()
{
    constexpr int kNumbers = 4096;
    // torch.cuda.is_available(), device_count(), get_device_properties()
    int count = 0, driver = 0;
    CHECK(cudaDriverGetVersion(&driver));
    CHECK(cudaGetDeviceCount(&count));
    for (int d = 0; d < count; d++) {
        cudaDeviceProp properties;
        CHECK(cudaGetDeviceProperties(&properties, d));
    }
    // The first tensor: the streams' priorities, a block of the caching allocator, a capture that
    // is not there.
    CHECK(cudaSetDevice(0));
    int least = 0, greatest = 0;
    CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    float *p;
    CHECK(cudaMalloc(&p, 2 << 20));
    cudaStreamCaptureStatus capture;
    CHECK(cudaStreamIsCapturing(nullptr, &capture));
    // zeros(), add(), and an event that lets the block be used again
    fill<<<kNumbers / 256, 256>>>(p, 1, kNumbers);
    CHECK(cudaGetLastError());
    add<<<kNumbers / 256, 256>>>(p, 1, kNumbers);
    CHECK(cudaGetLastError());
    cudaEvent_t event;
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    CHECK(cudaEventRecord(event, nullptr));
    // cpu()
    std::vector<float> numbers(kNumbers);
    CHECK(cudaMemcpyAsync(numbers.data(), p, kNumbers * sizeof(float), cudaMemcpyDeviceToHost,
                          nullptr));
    CHECK(cudaStreamSynchronize(nullptr));
    for (float x : numbers)
        if (x != 2) return printf("%g, not 2\n", x), 1;
    puts("ok");
}
