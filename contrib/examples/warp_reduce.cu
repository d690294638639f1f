// SPDX-License-Identifier: Apache-2.0
// Sums a long row of numbers with warp shuffles.
//
//   warp_reduce [NUMBERS]
//
// The 32 threads of a warp add up their numbers in five steps without any memory between them:
// each takes the value of the thread 16, 8, 4, 2, 1 places further. The warps of a block then meet in
// shared memory, and the blocks in one atomic addition. Whole numbers: the sum must be exact.

#include <vector>

#include "example.h"

constexpr unsigned kWholeWarp = 0xffffffff;

__device__ long long warp_sum(long long value)
{
    for (int distance = warpSize / 2; distance > 0; distance /= 2)
        value += __shfl_down_sync(kWholeWarp, value, distance);
    return value;  // of the whole warp, in its first thread
}

__global__ void sum_all(const int *numbers, int n, unsigned long long *total)
{
    __shared__ long long of_warp[32];
    const int lane = threadIdx.x % warpSize, warp = threadIdx.x / warpSize;

    long long mine = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        mine += numbers[i];
    mine = warp_sum(mine);
    if (lane == 0)
        of_warp[warp] = mine;
    __syncthreads();

    if (warp == 0) {
        const int warps = blockDim.x / warpSize;
        const long long sum = warp_sum(lane < warps ? of_warp[lane] : 0);
        if (lane == 0)
            atomicAdd(total, static_cast<unsigned long long>(sum));
    }
}

int main(int argc, char **argv)
{
    const int n = size_argument(argc, argv, "NUMBERS", 1000003, "Sums NUMBERS whole numbers.");
    print_device();

    std::vector<int> numbers(n);
    long long expected = 0;
    for (int i = 0; i < n; i++) {
        numbers[i] = int((i * 2654435761u) >> 8) - (1 << 23);
        expected += numbers[i];
    }

    int *gpu_numbers;
    unsigned long long *gpu_total;
    CHECK(cudaMalloc(&gpu_numbers, n * sizeof(int)));
    CHECK(cudaMalloc(&gpu_total, sizeof *gpu_total));
    CHECK(cudaMemcpy(gpu_numbers, numbers.data(), n * sizeof(int), cudaMemcpyHostToDevice));
    CHECK(cudaMemset(gpu_total, 0, sizeof *gpu_total));

    sum_all<<<32, 256>>>(gpu_numbers, n, gpu_total);
    CHECK(cudaGetLastError());
    long long total = 0;
    CHECK(cudaMemcpy(&total, gpu_total, sizeof total, cudaMemcpyDeviceToHost));

    CHECK(cudaFree(gpu_numbers));
    CHECK(cudaFree(gpu_total));
    printf("sum of %d numbers: %lld (the CPU: %lld)\n", n, total, expected);
    return verdict(total != expected, 1);
}
