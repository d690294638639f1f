// SPDX-License-Identifier: Apache-2.0
// A cooperative launch, in which all blocks wait for each other; one too large is refused.
#include <cooperative_groups.h>

#include "check.h"
namespace cg = cooperative_groups;

// Every round needs what all others wrote in the round before.
__global__ void rounds(int *a, int *b, int n, int count)
{
    cg::grid_group grid = cg::this_grid();
    for (int r = 0; r < count; r++) {
        int *from = r % 2 ? b : a, *to = r % 2 ? a : b;
        for (int i = (int)grid.thread_rank(); i < n; i += (int)grid.size())
            to[i] = from[(i + n / 2) % n] + 1;
        grid.sync();
    }
}

int main()
{
    const int n = 4096, count = 10;
    int *a, *b;
    CHECK(cudaMalloc(&a, n * 4));
    CHECK(cudaMalloc(&b, n * 4));
    CHECK(cudaMemset(a, 0, n * 4));
    int per_sm = 0;
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, rounds, 128, 0));
    cudaDeviceProp p;
    CHECK(cudaGetDeviceProperties(&p, 0));
    TRUE(p.cooperativeLaunch && per_sm > 0);
    const int most = per_sm * p.multiProcessorCount, blocks = most < 12 ? most : 12;
    int sized = n, times = count;
    void *arguments[] = {&a, &b, &sized, &times};
    CHECK(cudaLaunchCooperativeKernel(rounds, blocks, 128, arguments, 0, nullptr));
    std::vector<int> got(n);
    CHECK(cudaMemcpy(got.data(), a, n * 4, cudaMemcpyDeviceToHost));
    for (int v : got) TRUE(v == count);
    FAILS(cudaLaunchCooperativeKernel(rounds, most + 1, 128, arguments, 0, nullptr),
          cudaErrorCooperativeLaunchTooLarge);
    return right();
}
