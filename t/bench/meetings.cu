// SPDX-License-Identifier: Apache-2.0
// Kernels whose threads meet, on the software GPU: `meetings --times` prints the milliseconds of
// each; `meetings REFERENCE BAR MS...` prints JSON for t/lib/run-benches, each beside the
// reference's, if that is not 0.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include <cuda_runtime.h>

#include "must.h"

constexpr unsigned kTile = 16, kSide = 512, kBlock = 256, kCount = 4 << 20;

__global__ void tiles(const float *a, const float *b, float *c)
{
    __shared__ float as[kTile][kTile], bs[kTile][kTile];
    const unsigned x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * kTile + y,
                   column = blockIdx.x * kTile + x;
    float sum = 0;
    for (unsigned t = 0; t < kSide; t += kTile) {
        as[y][x] = a[row * kSide + t + x];
        bs[y][x] = b[(t + y) * kSide + column];
        __syncthreads();
        for (unsigned k = 0; k < kTile; k++) sum += as[y][k] * bs[k][x];
        __syncthreads();
    }
    c[row * kSide + column] = sum;
}

__global__ void tree(const float *x, float *sums)
{
    __shared__ float s[kBlock];
    const unsigned t = threadIdx.x;
    s[t] = x[blockIdx.x * kBlock + t];
    __syncthreads();
    for (unsigned k = blockDim.x / 2; k > 0; k /= 2) {
        if (t < k) s[t] += s[t + k];
        __syncthreads();
    }
    if (t == 0) sums[blockIdx.x] = s[0];
}

__global__ void histogram(const unsigned char *x, unsigned *counts)
{
    __shared__ unsigned h[256];
    h[threadIdx.x] = 0;
    __syncthreads();
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < kCount;
         i += blockDim.x * gridDim.x)
        atomicAdd(&h[x[i]], 1u);
    __syncthreads();
    atomicAdd(&counts[threadIdx.x], h[threadIdx.x]);
}

__global__ void shuffles(const float *x, float *sums)
{
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[i];
    for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(~0u, v, d);
    if (threadIdx.x % 32 == 0) sums[i / 32] = v;
}

static void expect(bool right, const char *what)
{
    if (right) return;
    fprintf(stderr, "%s: the result is wrong\n", what);
    exit(1);
}

static double median_ms(const std::function<void()> &work)
{
    std::vector<double> times;
    work();
    for (int i = 0; i < 9; i++) {
        const auto start = std::chrono::steady_clock::now();
        work();
        times.push_back(
            std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
                .count());
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
}

int main(int argc, char **argv)
{
    std::vector<float> x(kCount), out(kCount);
    std::vector<unsigned char> bytes(kCount);
    for (unsigned i = 0; i < kCount; i++)
        x[i] = i % 7 - 3.0f, bytes[i] = static_cast<unsigned char>(i * 2654435761u >> 13);
    float *dx, *dout;
    unsigned char *dbytes;
    unsigned *dcounts;
    MUST(cudaMalloc(&dx, kCount * 4));
    MUST(cudaMalloc(&dout, kCount * 4));
    MUST(cudaMalloc(&dbytes, kCount));
    MUST(cudaMalloc(&dcounts, 1024));
    MUST(cudaMemcpy(dx, x.data(), kCount * 4, cudaMemcpyHostToDevice));
    MUST(cudaMemcpy(dbytes, bytes.data(), kCount, cudaMemcpyHostToDevice));

    std::vector<std::pair<const char *, double>> figures;
    const auto measure = [&](const char *name, const std::function<void()> &launch,
                             size_t results) {
        figures.emplace_back(name, median_ms([&] {
                                 launch();
                                 MUST(cudaGetLastError());
                                 MUST(cudaDeviceSynchronize());
                             }));
        MUST(cudaMemcpy(out.data(), dout, results * 4, cudaMemcpyDeviceToHost));
    };
    const auto sums_right = [&](unsigned each) {  // small integers: exact in any order
        for (unsigned i = 0; i < kCount / each; i++) {
            float sum = 0;
            for (unsigned k = 0; k < each; k++) sum += x[i * each + k];
            if (sum != out[i]) return false;
        }
        return true;
    };

    measure(
        "tiled matrix product, 512^3",
        [&] { tiles<<<dim3(kSide / kTile, kSide / kTile), dim3(kTile, kTile)>>>(dx, dx, dout); },
        kSide * kSide);
    for (unsigned i = 0; i < kSide * kSide; i += 97) {
        float sum = 0;
        for (unsigned k = 0; k < kSide; k++)
            sum += x[i / kSide * kSide + k] * x[k * kSide + i % kSide];
        expect(sum == out[i], "tiled matrix product");
    }
    measure(
        "tree reduction of 4 Mi floats", [&] { tree<<<kCount / kBlock, kBlock>>>(dx, dout); },
        kCount / kBlock);
    expect(sums_right(kBlock), "tree reduction");
    measure(
        "histogram of 4 MiB", [&] { histogram<<<64, kBlock>>>(dbytes, dcounts); }, 0);
    measure(
        "shuffle reduction of 4 Mi floats",
        [&] { shuffles<<<kCount / kBlock, kBlock>>>(dx, dout); }, kCount / 32);
    expect(sums_right(32), "shuffle reduction");
    std::vector<unsigned> counts(256), want(256);
    MUST(cudaMemset(dcounts, 0, 1024));
    histogram<<<64, kBlock>>>(dbytes, dcounts);
    MUST(cudaMemcpy(counts.data(), dcounts, 1024, cudaMemcpyDeviceToHost));
    for (unsigned char b : bytes) want[b]++;
    expect(counts == want, "histogram");

    if (argc == 2 && !strcmp(argv[1], "--times")) {
        for (const auto &[name, ms] : figures) printf("%.3f\n", ms);
        return 0;
    }
    if (argc < 3 + static_cast<int>(figures.size())) {
        fprintf(stderr, "usage: meetings --times | meetings REFERENCE BAR MS...\n");
        return 2;
    }
    for (size_t i = 0; i < figures.size(); i++) {
        const double theirs = atof(argv[i + 3]);
        if (theirs <= 0) continue;
        printf("{\"name\": \"%s\", \"value\": %.3f, \"unit\": \"ms\", \"reference\": \"%s\", "
               "\"reference_value\": %.3f, \"ratio\": %.3f, \"at_least_ratio\": %s}\n",
               figures[i].first, figures[i].second, argv[1], theirs, theirs / figures[i].second,
               argv[2]);
    }
}
