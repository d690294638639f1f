// SPDX-License-Identifier: Apache-2.0
// CUB and Thrust from the toolkit's headers: sort, scan, reduce, select and so on, each against the
// host.
#include "../check.h"

#include <cub/cub.cuh>
#include <thrust/device_vector.h>
#include <thrust/inner_product.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sort.h>
#include <thrust/transform_reduce.h>
#include <thrust/unique.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <vector>

static std::mt19937 random_number(20);

template <typename T> static std::vector<T> numbers(size_t n, int range)
{
    std::vector<T> all(n);
    for (T &x : all) x = T(int(random_number() % (2 * range)) - range);
    return all;
}

// CUB's two steps: how much memory, then the work.
template <typename F> static void cub_call(F &&call)
{
    void *temporary = nullptr;
    size_t bytes = 0;
    CHECK(call(temporary, bytes));
    CHECK(cudaMalloc(&temporary, bytes));
    CHECK(call(temporary, bytes));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFree(temporary));
}

template <typename T> struct Device {
    T *p = nullptr;
    size_t n;
    explicit Device(size_t count) : n(count) { CHECK(cudaMalloc(&p, n * sizeof(T))); }
    explicit Device(const std::vector<T> &from) : Device(from.size())
    {
        CHECK(cudaMemcpy(p, from.data(), n * sizeof(T), cudaMemcpyHostToDevice));
    }
    ~Device() { cudaFree(p); }
    std::vector<T> back() const
    {
        std::vector<T> to(n);
        CHECK(cudaMemcpy(to.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost));
        return to;
    }
};

static void cub_radix_sort(int n)
{
    const auto keys = numbers<int>(n, 1 << 20);
    std::vector<uint32_t> values(n);
    std::iota(values.begin(), values.end(), 0u);
    Device<int> in(keys), out(n);
    Device<uint32_t> values_in(values), values_out(n);
    cub_call([&](void *t, size_t &b) {
        return cub::DeviceRadixSort::SortPairs(t, b, in.p, out.p, values_in.p, values_out.p, n);
    });
    // Radix sort is stable.
    std::stable_sort(values.begin(), values.end(),
                     [&](uint32_t a, uint32_t b) { return keys[a] < keys[b]; });
    TRUE(values_out.back() == values);
    auto sorted = keys;
    std::sort(sorted.begin(), sorted.end());
    TRUE(out.back() == sorted);
}

static void cub_scan_and_reduce(int n)
{
    const auto x = numbers<int64_t>(n, 1000);
    Device<int64_t> in(x), out(n), sum(1), low(1);
    std::vector<int64_t> scanned(n);
    cub_call(
        [&](void *t, size_t &b) { return cub::DeviceScan::InclusiveSum(t, b, in.p, out.p, n); });
    std::partial_sum(x.begin(), x.end(), scanned.begin());
    TRUE(out.back() == scanned);
    cub_call(
        [&](void *t, size_t &b) { return cub::DeviceScan::ExclusiveSum(t, b, in.p, out.p, n); });
    scanned.insert(scanned.begin(), 0);
    scanned.pop_back();
    TRUE(out.back() == scanned);
    cub_call([&](void *t, size_t &b) { return cub::DeviceReduce::Sum(t, b, in.p, sum.p, n); });
    TRUE(sum.back()[0] == std::accumulate(x.begin(), x.end(), int64_t{0}));
    cub_call([&](void *t, size_t &b) { return cub::DeviceReduce::Min(t, b, in.p, low.p, n); });
    TRUE(low.back()[0] == *std::min_element(x.begin(), x.end()));
}

static void cub_histogram_and_select(int n)
{
    const auto x = numbers<int>(n, 128);
    Device<int> in(x), counts(16), chosen(n), how_many(1);
    cub_call([&](void *t, size_t &b) {
        return cub::DeviceHistogram::HistogramEven(t, b, in.p, counts.p, 17, -128, 128, n);
    });
    std::vector<int> expected(16), odd;
    for (int v : x) expected[(v + 128) / 16]++;
    TRUE(counts.back() == expected);
    cub_call([&](void *t, size_t &b) {
        return cub::DeviceSelect::If(t, b, in.p, chosen.p, how_many.p, n,
                                     [] __device__(int v) { return v & 1; });
    });
    std::copy_if(x.begin(), x.end(), std::back_inserter(odd), [](int v) { return v & 1; });
    auto got = chosen.back();
    TRUE(how_many.back()[0] == int(odd.size()));
    got.resize(odd.size());
    TRUE(got == odd);
}

// A block's own sort, scan and reduction, and a warp's.
template <int threads, int items>
__global__ void block_primitives(const int *in, int *sorted, int *scanned, int *sums)
{
    using Load = cub::BlockLoad<int, threads, items, cub::BLOCK_LOAD_TRANSPOSE>;
    using Sort = cub::BlockRadixSort<int, threads, items>;
    using Scan = cub::BlockScan<int, threads>;
    using Reduce = cub::BlockReduce<int, threads>;
    using Warp = cub::WarpReduce<int>;
    __shared__ union {
        typename Load::TempStorage load;
        typename Sort::TempStorage sort;
        typename Scan::TempStorage scan;
        typename Reduce::TempStorage reduce;
        typename Warp::TempStorage warp[threads / 32];
    } shared;
    const int base = blockIdx.x * threads * items;
    int mine[items], before[items];
    Load(shared.load).Load(in + base, mine);
    __syncthreads();
    Scan(shared.scan).ExclusiveSum(mine, before);
    __syncthreads();
    const int sum = Reduce(shared.reduce).Sum(mine);
    __syncthreads();
    const int top = Warp(shared.warp[threadIdx.x / 32]).Reduce(mine[0], ::cuda::maximum<int>{});
    __syncthreads();
    Sort(shared.sort).Sort(mine);
    cub::StoreDirectBlocked(threadIdx.x, sorted + base, mine);
    cub::StoreDirectBlocked(threadIdx.x, scanned + base, before);
    int *out = sums + blockIdx.x * (1 + threads / 32);
    if (threadIdx.x == 0) out[0] = sum;
    if (threadIdx.x % 32 == 0) out[1 + threadIdx.x / 32] = top;
}

static void cub_blocks()
{
    constexpr int threads = 128, items = 5, blocks = 7, tile = threads * items,
                  warps = threads / 32;
    const auto x = numbers<int>(blocks * tile, 10000);
    Device<int> in(x), sorted(x.size()), scanned(x.size()), sums(blocks * (1 + warps));
    block_primitives<threads, items><<<blocks, threads>>>(in.p, sorted.p, scanned.p, sums.p);
    CHECK(cudaGetLastError());
    std::vector<int> wanted_sorted = x, wanted_scan(x.size()), wanted_sums;
    for (int b = 0; b < blocks; b++) {
        const auto first = x.begin() + b * tile;
        std::sort(wanted_sorted.begin() + b * tile, wanted_sorted.begin() + (b + 1) * tile);
        std::exclusive_scan(first, first + tile, wanted_scan.begin() + b * tile, 0);
        wanted_sums.push_back(std::accumulate(first, first + tile, 0));
        for (int w = 0; w < warps; w++) {
            int top = first[w * 32 * items];
            for (int lane = 1; lane < 32; lane++)
                top = std::max(top, first[(w * 32 + lane) * items]);
            wanted_sums.push_back(top);
        }
    }
    TRUE(sorted.back() == wanted_sorted);
    TRUE(scanned.back() == wanted_scan);
    TRUE(sums.back() == wanted_sums);
}

static void thrust_algorithms(int n)
{
    const auto x = numbers<float>(n, 1 << 16);
    thrust::device_vector<float> d(x.begin(), x.end());
    auto host = x;
    auto same = [](const auto &device, const auto &wanted) {
        std::vector<typename std::decay_t<decltype(wanted)>::value_type> got(device.size());
        thrust::copy(device.begin(), device.end(), got.begin());
        return got == wanted;
    };

    thrust::sort(d.begin(), d.end());
    std::sort(host.begin(), host.end());
    TRUE(same(d, host));
    // A comparison of one's own takes the merge sort.
    auto by_last_digit = [] __host__ __device__(float a, float b) {
        return int(a) % 10 < int(b) % 10;
    };
    thrust::stable_sort(d.begin(), d.end(), by_last_digit);
    std::stable_sort(host.begin(), host.end(), by_last_digit);
    TRUE(same(d, host));

    const auto keys = numbers<int>(n, 5);
    thrust::device_vector<int> k(keys.begin(), keys.end()), out_keys(n), out_sums(n), ones(n, 1);
    auto ends =
        thrust::reduce_by_key(k.begin(), k.end(), ones.begin(), out_keys.begin(), out_sums.begin());
    std::vector<int> runs, lengths;
    for (size_t i = 0; i < keys.size(); i++)
        if (i && keys[i] == keys[i - 1])
            lengths.back()++;
        else
            runs.push_back(keys[i]), lengths.push_back(1);
    out_keys.resize(ends.first - out_keys.begin());
    out_sums.resize(ends.second - out_sums.begin());
    TRUE(same(out_keys, runs) && same(out_sums, lengths));
    k.resize(thrust::unique(k.begin(), k.end()) - k.begin());
    TRUE(same(k, runs));

    thrust::device_vector<int> whole(keys.begin(), keys.end()), scanned(n);
    TRUE(thrust::reduce(whole.begin(), whole.end()) ==
         std::accumulate(keys.begin(), keys.end(), 0));
    TRUE(thrust::inner_product(whole.begin(), whole.end(), whole.begin(), 0ll) ==
         std::inner_product(keys.begin(), keys.end(), keys.begin(), 0ll));
    TRUE(thrust::transform_reduce(
             whole.begin(), whole.end(), [] __host__ __device__(int v) { return v * v; }, 0,
             ::cuda::maximum<int>{}) == 25);
    std::vector<int> scan(n);
    thrust::inclusive_scan(whole.begin(), whole.end(), scanned.begin(), ::cuda::maximum<int>{});
    std::inclusive_scan(keys.begin(), keys.end(), scan.begin(),
                        [](int a, int b) { return std::max(a, b); });
    TRUE(same(scanned, scan));
}

int main()
{
    for (int n : {1, 33, 5000, 100003}) {
        cub_radix_sort(n);
        cub_scan_and_reduce(n);
        cub_histogram_and_select(n);
    }
    cub_blocks();
    thrust_algorithms(20011);
    printf("right\n");
}
