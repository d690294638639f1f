// SPDX-License-Identifier: Apache-2.0
// Cooperative groups: tiles, coalesced threads, partitions, and their collectives.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

#include "check.h"
namespace cg = cooperative_groups;

__global__ void sums(const int *in, int *tile_sums, int *scans, int *odd, int *labelled)
{
    cg::thread_block block = cg::this_thread_block();
    const unsigned i = block.thread_rank();
    auto tile = cg::tiled_partition<8>(block);
    const int total = cg::reduce(tile, in[i], cg::plus<int>());
    if (tile.thread_rank() == 0) tile_sums[i / 8] = total;
    auto warp = cg::tiled_partition<32>(block);
    scans[i] = cg::inclusive_scan(warp, in[i], cg::plus<int>());
    if (in[i] % 2) {
        cg::coalesced_group active = cg::coalesced_threads();
        odd[i] = (int)active.size() * 100 + (int)active.thread_rank();
    } else {
        odd[i] = -1;
    }
    auto same = cg::labeled_partition(warp, in[i] % 3);
    labelled[i] = cg::reduce(same, 1, cg::plus<int>());
    block.sync();
}

int main()
{
    const int n = 128;
    int *m;
    std::vector<int> in(n), got(5 * n);
    for (int i = 0; i < n; i++) in[i] = (i * 37 + 11) % 23;
    CHECK(cudaMalloc(&m, 5 * n * 4));
    CHECK(cudaMemcpy(m, in.data(), n * 4, cudaMemcpyHostToDevice));
    sums<<<1, n>>>(m, m + n, m + 2 * n, m + 3 * n, m + 4 * n);
    CHECK(cudaMemcpy(got.data(), m, 5 * n * 4, cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; i++) {
        int tile = 0, scan = 0, odd = 0, before = 0, same = 0;
        for (int k = i / 8 * 8; k < i / 8 * 8 + 8; k++) tile += in[k];
        for (int k = i / 32 * 32; k < i / 32 * 32 + 32; k++) {
            if (k <= i) scan += in[k];
            odd += in[k] % 2, before += in[k] % 2 && k < i, same += in[k] % 3 == in[i] % 3;
        }
        TRUE(got[n + i / 8] == tile);
        TRUE(got[2 * n + i] == scan);
        TRUE(got[3 * n + i] == (in[i] % 2 ? odd * 100 + before : -1));
        TRUE(got[4 * n + i] == same);
    }
    return right();
}
