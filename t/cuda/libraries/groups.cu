// SPDX-License-Identifier: Apache-2.0
// Cooperative groups as programs use them: tiles of every size, coalesced and labelled groups, the
// reductions and scans of the toolkit's headers, groups of a block and of the whole grid.
#include "../check.h"
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace cg = cooperative_groups;

static int value_of(int i) { return (i * 2654435761u >> 7) % 1000 - 300; }

// n values in, n times `each` values out.
static std::vector<int> run(int n, int each, const std::function<void(const int *, int *)> &launch)
{
    std::vector<int> in(n), out(n * each);
    for (int i = 0; i < n; i++) in[i] = value_of(i);
    int *from, *to;
    CHECK(cudaMalloc(&from, n * sizeof(int)));
    CHECK(cudaMalloc(&to, out.size() * sizeof(int)));
    CHECK(cudaMemset(to, 0xEE, out.size() * sizeof(int)));
    CHECK(cudaMemcpy(from, in.data(), n * sizeof(int), cudaMemcpyHostToDevice));
    launch(from, to);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(out.data(), to, out.size() * sizeof(int), cudaMemcpyDeviceToHost));
    CHECK(cudaFree(from));
    CHECK(cudaFree(to));
    return out;
}

// --- tiles of 1 to 32 threads of a warp

template <int size> __global__ void tiles(const int *in, int *out)
{
    auto block = cg::this_thread_block();
    auto tile = cg::tiled_partition<size>(block);
    const int i = block.thread_rank(), v = in[i];
    int *mine = out + i * 8;
    mine[0] = tile.thread_rank();
    mine[1] = tile.meta_group_rank() * 1000 + tile.meta_group_size();
    mine[2] = cg::reduce(tile, v, cg::plus<int>());
    mine[3] = cg::reduce(tile, v, cg::less<int>());
    mine[4] = cg::inclusive_scan(tile, v);
    mine[5] = tile.shfl(v, size - 1) * 2 + tile.any(v < -290);
    mine[6] = int(tile.ballot(v & 1));
    mine[7] = tile.shfl_xor(v, size / 2) + tile.shfl_down(v, 1);
}

template <int size> static void check_tiles()
{
    constexpr int n = 96;
    const auto got = run(n, 8, [](const int *in, int *out) { tiles<size><<<1, n>>>(in, out); });
    for (int i = 0; i < n; i++) {
        const int first = i / size * size;
        int sum = 0, low = 1 << 30, before = 0, odd = 0;
        bool any = false;
        for (int k = 0; k < size; k++) {
            const int v = value_of(first + k);
            sum += v, low = std::min(low, v), odd |= (v & 1) << k, any |= v < -290;
            if (k <= i - first) before += v;
        }
        const int *mine = &got[i * 8];
        TRUE(mine[0] == i - first && mine[1] == i / size * 1000 + n / size);
        TRUE(mine[2] == sum && mine[3] == low && mine[4] == before);
        TRUE(mine[5] == value_of(first + size - 1) * 2 + any && mine[6] == odd);
        const int below = i - first + 1 < size ? i + 1 : i;
        TRUE(mine[7] == value_of(first + ((i - first) ^ (size / 2))) + value_of(below));
    }
}

// --- tiles of several warps, which need memory of the block

template <int size> __global__ void wide_tiles(const int *in, int *out)
{
    __shared__ cg::block_tile_memory<256> memory;
    auto block = cg::this_thread_block(memory);
    auto tile = cg::tiled_partition<size>(block);
    const int i = block.thread_rank();
    out[i * 2] = cg::reduce(tile, in[i], cg::plus<int>());
    tile.sync();
    out[i * 2 + 1] = tile.shfl(in[i], 3) + tile.all(in[i] > -400);
}

template <int size> static void check_wide_tiles()
{
    const auto got =
        run(256, 2, [](const int *in, int *out) { wide_tiles<size><<<1, 256>>>(in, out); });
    for (int i = 0; i < 256; i++) {
        int sum = 0;
        for (int k = i / size * size; k < (i / size + 1) * size; k++) sum += value_of(k);
        TRUE(got[i * 2] == sum && got[i * 2 + 1] == value_of(i / size * size + 3) + 1);
    }
}

// --- groups of the threads that happen to be together

__global__ void coalesced(const int *in, int *out)
{
    const int i = threadIdx.x, v = in[i];
    int *mine = out + i * 6;
    for (int k = 0; k < 6; k++) mine[k] = -1;
    if (v % 3 == 0) {
        auto group = cg::coalesced_threads();
        mine[0] = group.size();
        mine[1] = group.thread_rank();
        mine[2] = cg::reduce(group, v, cg::plus<int>());
        mine[3] = group.shfl(v, 0);
    }
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    auto alike = cg::labeled_partition(warp, v & 3);
    mine[4] = cg::reduce(alike, v, cg::greater<int>());
    auto halves = cg::binary_partition(warp, v > 0);
    mine[5] = cg::exclusive_scan(halves, v);
}

static void check_coalesced()
{
    const auto got = run(64, 6, [](const int *in, int *out) { coalesced<<<1, 64>>>(in, out); });
    for (int warp = 0; warp < 2; warp++) {
        std::vector<int> thirds;
        std::map<int, int> top, before;
        int sum = 0;
        for (int i = warp * 32; i < warp * 32 + 32; i++) {
            const int v = value_of(i);
            if (v % 3 == 0) thirds.push_back(i), sum += v;
            top[v & 3] = top.count(v & 3) ? std::max(top[v & 3], v) : v;
        }
        for (int i = warp * 32; i < warp * 32 + 32; i++) {
            const int v = value_of(i), *mine = &got[i * 6];
            if (v % 3 == 0) {
                TRUE(mine[0] == int(thirds.size()) && thirds[mine[1]] == i);
                TRUE(mine[2] == sum && mine[3] == value_of(thirds[0]));
            } else {
                TRUE(mine[0] == -1);
            }
            TRUE(mine[4] == top[v & 3] && mine[5] == before[v > 0]);
            before[v > 0] += v;
        }
    }
}

// --- a queue that threads enter by one atomic a group

__global__ void enqueue(const int *in, int *out, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n || in[i] < 0) return;
    auto group = cg::coalesced_threads();
    int place = 0;
    if (group.thread_rank() == 0) place = atomicAdd(out, int(group.size()));
    place = group.shfl(place, 0) + group.thread_rank();
    out[1 + place] = i;
}

static void check_queue()
{
    constexpr int n = 5000;
    int fill = 0;
    auto got = run(n, 2, [&](const int *in, int *out) {
        CHECK(cudaMemcpy(out, &fill, sizeof fill, cudaMemcpyHostToDevice));
        enqueue<<<(n + 127) / 128, 128>>>(in, out, n);
    });
    std::vector<int> wanted;
    for (int i = 0; i < n; i++)
        if (value_of(i) >= 0) wanted.push_back(i);
    TRUE(got[0] == int(wanted.size()));
    std::sort(got.begin() + 1, got.begin() + 1 + got[0]);
    TRUE(std::equal(wanted.begin(), wanted.end(), got.begin() + 1));
}

// --- copies by a group, and the whole grid in step

__global__ void grid_steps(const int *in, int *out, int *scratch, int n, int rounds)
{
    extern __shared__ int local[];
    auto grid = cg::this_grid();
    auto block = cg::this_thread_block();
    const int base = blockIdx.x * blockDim.x;
    cg::memcpy_async(block, local, in + base, sizeof(int) * blockDim.x);
    cg::wait(block);
    int *a = out, *b = scratch;
    a[base + threadIdx.x] = local[threadIdx.x];
    for (int round = 0; round < rounds; round++) {
        grid.sync();
        const int i = int(grid.thread_rank());
        b[i] = a[(i + 1) % n] + a[(i + n - 1) % n];
        int *t = a;
        a = b, b = t;
    }
    // Arrive, do something else, wait.
    auto token = grid.barrier_arrive();
    local[threadIdx.x] = grid.is_valid();
    grid.barrier_wait(std::move(token));
    if (grid.thread_rank() == 0) scratch[n] = int(grid.num_blocks()) * 1000 + local[0];
}

static void check_grid()
{
    int n = 8 * 128, rounds = 6;
    int *scratch, last;
    CHECK(cudaMalloc(&scratch, (n + 1) * sizeof(int)));
    const auto got = run(n, 1, [&](const int *in, int *out) {
        void *arguments[] = {&in, &out, &scratch, &n, &rounds};
        CHECK(cudaLaunchCooperativeKernel(grid_steps, 8, 128, arguments, 128 * sizeof(int)));
    });
    CHECK(cudaMemcpy(&last, scratch + n, sizeof last, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(scratch));
    std::vector<int> a(n), b(n);
    for (int i = 0; i < n; i++) a[i] = value_of(i);
    for (int round = 0; round < rounds; round++, std::swap(a, b))
        for (int i = 0; i < n; i++) b[i] = a[(i + 1) % n] + a[(i + n - 1) % n];
    TRUE(got == a && last == 8001);
}

int main()
{
    check_tiles<1>();
    check_tiles<2>();
    check_tiles<4>();
    check_tiles<8>();
    check_tiles<16>();
    check_tiles<32>();
    check_wide_tiles<64>();
    check_wide_tiles<128>();
    check_coalesced();
    check_queue();
    check_grid();
    printf("right\n");
}
