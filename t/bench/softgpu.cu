// SPDX-License-Identifier: Apache-2.0
// The software GPU's speed: prints one JSON object a figure, for t/lib/run-benches. Every time
// stands beside that of the same work on the host, measured in the same run, a round of one after a
// round of the other; the medians count.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include <cuda.h>
#include <cuda_runtime.h>

#include "host.h"
#include "must.h"

__global__ void saxpy(size_t n, float a, const float *x, float *y)
{
    const size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}

__global__ void matmul(unsigned n, const float *a, const float *b, float *c)
{
    const unsigned row = blockIdx.y * blockDim.y + threadIdx.y,
                   column = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n || column >= n) return;
    float sum = 0;
    for (unsigned k = 0; k < n; k++) sum += a[row * n + k] * b[k * n + column];
    c[row * n + column] = sum;
}

__global__ void nothing() {}

using Work = std::function<void()>;

static double seconds(const Work &work)
{
    const auto start = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

static double median(std::vector<double> values)
{
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

// The medians of each work's times, after one run of each that does not count.
static std::vector<double> in_turns(int rounds, const std::vector<Work> &works)
{
    std::vector<std::vector<double>> times(works.size());
    for (const Work &w : works) w();
    for (int r = 0; r < rounds; r++)
        for (size_t i = 0; i < works.size(); i++) times[i].push_back(seconds(works[i]));
    std::vector<double> result;
    for (const auto &t : times) result.push_back(median(t));
    return result;
}

static void two_threads(const std::function<void(int)> &half)
{
    std::thread other(half, 1);
    half(0);
    other.join();
}

static void compare(const char *name, const char *unit, double ours, const char *host,
                    double theirs, double bar)
{
    printf("{\"name\": \"%s\", \"value\": %.3f, \"unit\": \"%s\", \"reference\": \"%s\", "
           "\"reference_value\": %.3f, \"ratio\": "
           "%.3f, \"at_least_ratio\": %.2f}\n",
           name, ours, unit, host, theirs, theirs / ours, bar);
}

static void absolute(const char *name, const char *unit, double value, double bar)
{
    printf("{\"name\": \"%s\", \"value\": %.3f, \"unit\": \"%s\"", name, value, unit);
    if (bar > 0) printf(", \"at_most\": %g", bar);
    printf("}\n");
}

static void bench_saxpy()
{
    constexpr size_t n = size_t{64} << 20 >> 2;
    std::vector<float> x(n, 1.0f), y(n, 2.0f), native_y = y;
    float *dx, *dy;
    MUST(cudaMalloc(&dx, n * 4));
    MUST(cudaMalloc(&dy, n * 4));
    MUST(cudaMemcpy(dx, x.data(), n * 4, cudaMemcpyHostToDevice));
    MUST(cudaMemcpy(dy, y.data(), n * 4, cudaMemcpyHostToDevice));
    const auto host = [&x](auto *function, std::vector<float> &y) {
        return [&x, &y, function] {
            two_threads([&](int half) {
                function(n / 2, 0.5f, x.data() + half * (n / 2), y.data() + half * (n / 2));
            });
        };
    };
    const auto device = [&] {
        saxpy<<<(n + 255) / 256, 256>>>(n, 0.5f, dx, dy);
        MUST(cudaDeviceSynchronize());
    };
    const auto t = in_turns(15, {device, host(saxpy_plain, y), host(saxpy_native, native_y)});
    MUST(cudaMemcpy(x.data(), dy, n * 4,
                    cudaMemcpyDeviceToHost));  // small numbers: exact with fma or without
    if (x != y || x != native_y) {
        fprintf(stderr, "saxpy: the device's result is not the host's\n");
        exit(1);
    }
    compare("saxpy of 64 MiB", "ms", t[0] * 1e3, "2 threads, C++ -O3", t[1] * 1e3, 0.7);
    compare("saxpy of 64 MiB, native", "ms", t[0] * 1e3, "2 threads, C++ -O3 -march=native",
            t[2] * 1e3, 0.7);
    MUST(cudaFree(dx));
    MUST(cudaFree(dy));
}

static void bench_matmul()
{
    constexpr unsigned n = 512;
    std::vector<float> a(n * n), b(n * n), c(n * n), d(n * n);
    for (unsigned i = 0; i < n * n; i++) a[i] = i % 7 - 3.0f, b[i] = i % 5 - 2.0f;
    float *da, *db, *dc;
    MUST(cudaMalloc(&da, n * n * 4));
    MUST(cudaMalloc(&db, n * n * 4));
    MUST(cudaMalloc(&dc, n * n * 4));
    MUST(cudaMemcpy(da, a.data(), n * n * 4, cudaMemcpyHostToDevice));
    MUST(cudaMemcpy(db, b.data(), n * n * 4, cudaMemcpyHostToDevice));
    const auto host = [&](auto *function) {
        return [&, function] {
            two_threads([&](int half) {
                function(n, half * n / 2, (half + 1) * n / 2, a.data(), b.data(), c.data());
            });
        };
    };
    const auto device = [&] {
        matmul<<<dim3(n / 32, n / 8), dim3(32, 8)>>>(n, da, db, dc);
        MUST(cudaDeviceSynchronize());
    };
    const auto t = in_turns(7, {device, host(matmul_plain), host(matmul_native)});
    MUST(cudaMemcpy(d.data(), dc, n * n * 4, cudaMemcpyDeviceToHost));
    if (c != d) {  // small integers: exact whatever the order
        fprintf(stderr, "matmul: the device's result is not the host's\n");
        exit(1);
    }
    compare("naive matrix product, 512^3", "ms", t[0] * 1e3, "2 threads, C++ -O3", t[1] * 1e3, 0.5);
    compare("naive matrix product, native", "ms", t[0] * 1e3, "2 threads, C++ -O3 -march=native",
            t[2] * 1e3, 0.5);
}

// The kernel of typical.cu under many names, so that each is compiled: a reduction with a barrier,
// shuffles and a loop.
static void bench_compile(const char *path)
{
    std::ifstream file(path);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    if (text.empty()) {
        fprintf(stderr, "%s: cannot be read\n", path);
        exit(1);
    }
    float *memory;
    MUST(cudaMalloc(&memory, 4096));
    // From the loaded module to the end of the first launch, less a later launch.
    const auto first_launch = [&](int number) {
        const std::string name = "typical_" + std::to_string(number);
        std::string ptx = text;
        for (size_t at = 0; (at = ptx.find("typical", at)) != ptx.npos; at += name.size())
            ptx.replace(at, 7, name);
        CUmodule m;
        CUfunction f;
        MUST(cuModuleLoadData(&m, ptx.c_str()));
        MUST(cuModuleGetFunction(&f, m, name.c_str()));
        unsigned n = 1024;
        void *arguments[] = {&memory, &memory, &n};
        const Work launch = [&] {
            MUST(cuLaunchKernel(f, 1, 1, 1, 256, 1, 1, 0, nullptr, arguments, nullptr));
            MUST(cuCtxSynchronize());
        };
        const double first = seconds(launch), later = seconds(launch);
        MUST(cuModuleUnload(m));
        return first - later;
    };
    const double very_first = first_launch(0);
    std::vector<double> cold, cached;
    for (int i = 1; i <= 9; i++) cold.push_back(first_launch(i));
    for (int i = 1; i <= 9; i++) cached.push_back(first_launch(i));
    absolute("kernel's first launch, cold", "ms", median(cold) * 1e3, 60);
    absolute("the same, LLVM not loaded yet", "ms", very_first * 1e3, 0);
    absolute("kernel's first launch, from the cache", "ms", median(cached) * 1e3, 3);
    MUST(cudaFree(memory));
}

static void bench_launch()
{
    constexpr int count = 2000;
    const Work many = [] {
        for (int i = 0; i < count; i++) nothing<<<1, 32>>>();
        MUST(cudaDeviceSynchronize());
    };
    const Work waited = [] {
        for (int i = 0; i < count; i++) {
            nothing<<<1, 32>>>();
            MUST(cudaDeviceSynchronize());
        }
    };
    const auto t = in_turns(9, {many, waited});
    absolute("empty launch", "us", t[0] / count * 1e6, 10);
    absolute("empty launch, waited for", "us", t[1] / count * 1e6, 0);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s TYPICAL.ptx\n", argv[0]);
        return 2;
    }
    MUST(cudaFree(nullptr));
    bench_saxpy();
    bench_matmul();
    bench_compile(argv[1]);
    bench_launch();
}
