// SPDX-License-Identifier: Apache-2.0
// Sums a row of numbers on two GPUs, each one half of it.
//
//   two_device_sum [NUMBERS]
//
// cudaSetDevice chooses the GPU for what follows. Launches return at once, so both GPUs work at
// the same time; the second one's result then travels from GPU to GPU (cudaMemcpyPeer), and the first
// one adds it to its own. With a single GPU that one does both halves.

#include <algorithm>
#include <vector>

#include "example.h"

__global__ void sum_part(const int *numbers, int n, unsigned long long *total)
{
    long long mine = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        mine += numbers[i];
    atomicAdd(total, static_cast<unsigned long long>(mine));
}

__global__ void add_to(unsigned long long *total, const unsigned long long *more)
{
    *total += *more;
}

int main(int argc, char **argv)
{
    const int n = size_argument(argc, argv, "NUMBERS", 1000003, "Sums NUMBERS whole numbers on two GPUs.");
    int devices = 0;
    CHECK(cudaGetDeviceCount(&devices));
    devices = std::min(devices, 2);
    for (int d = 0; d < devices; d++)
        print_device(d);
    if (devices < 2)
        printf("there is one GPU only: it does both halves\n");

    std::vector<int> numbers(n);
    long long expected = 0;
    for (int i = 0; i < n; i++) {
        numbers[i] = i % 1001 - 300;
        expected += numbers[i];
    }

    int *gpu_numbers[2];
    unsigned long long *gpu_total[2];
    const int start[3] = {0, n / 2, n};
    for (int half = 0; half < 2; half++) {
        const int count = start[half + 1] - start[half];
        CHECK(cudaSetDevice(half % devices));
        CHECK(cudaMalloc(&gpu_numbers[half], std::max(count, 1) * sizeof(int)));
        CHECK(cudaMalloc(&gpu_total[half], sizeof(long long)));
        CHECK(cudaMemset(gpu_total[half], 0, sizeof(long long)));
        CHECK(cudaMemcpy(gpu_numbers[half], numbers.data() + start[half], count * sizeof(int), cudaMemcpyHostToDevice));
    }
    for (int half = 0; half < 2; half++) {
        CHECK(cudaSetDevice(half % devices));
        sum_part<<<16, 128>>>(gpu_numbers[half], start[half + 1] - start[half], gpu_total[half]);
        CHECK(cudaGetLastError());
    }

    long long halves[2], total = 0;
    for (int half = 0; half < 2; half++) {
        CHECK(cudaSetDevice(half % devices));
        CHECK(cudaMemcpy(&halves[half], gpu_total[half], sizeof(long long), cudaMemcpyDeviceToHost));
        printf("device %d: numbers %d to %d sum up to %lld\n", half % devices, start[half], start[half + 1] - 1, halves[half]);
    }

    CHECK(cudaSetDevice(0));
    unsigned long long *arrived;
    CHECK(cudaMalloc(&arrived, sizeof *arrived));
    CHECK(cudaMemcpyPeer(arrived, 0, gpu_total[1], 1 % devices, sizeof *arrived));
    add_to<<<1, 1>>>(gpu_total[0], arrived);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(&total, gpu_total[0], sizeof total, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(arrived));

    for (int half = 0; half < 2; half++) {
        CHECK(cudaSetDevice(half % devices));
        CHECK(cudaFree(gpu_numbers[half]));
        CHECK(cudaFree(gpu_total[half]));
    }
    printf("together %lld (the CPU: %lld)\n", total, expected);
    return verdict(total != expected, 1);
}
