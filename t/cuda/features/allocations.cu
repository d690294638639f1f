// SPDX-License-Identifier: Apache-2.0
// Memory that is allocated, written and freed again and again, a few pieces at a time. With "time"
// as argument it prints what an allocation and its free take, in microseconds, by their size.
#include <chrono>
#include <cstdio>

#include "check.h"

static double pair(size_t bytes, int times)
{
    using Clock = std::chrono::steady_clock;
    const auto begin = Clock::now();
    for (int i = 0; i < times; i++) {
        CUdeviceptr p = 0;
        DRIVER(cuMemAlloc(&p, bytes));
        DRIVER(cuMemFree(p));
    }
    CHECK(cudaDeviceSynchronize());
    return std::chrono::duration<double, std::micro>(Clock::now() - begin).count() / times;
}

int main(int argc, char **argv)
{
    CHECK(cudaFree(nullptr));
    if (argc == 2 && !strcmp(argv[1], "time")) {
        for (const size_t bytes : {4 << 10, 256 << 10, 1 << 20, 4 << 20}) {
            pair(bytes, 1000);
            double best = 1e9;
            for (int i = 0; i < 20; i++) best = std::min(best, pair(bytes, 500));
            printf("%zu %.3f\n", bytes, best);
        }
        return 0;
    }
    for (int i = 0; i < 1000; i++) {
        int *few[3], got[3] = {};
        for (int n = 0; n < 3; n++) {
            CHECK(cudaMalloc(&few[n], 1000 << 2 * n));
            CHECK(cudaMemset(few[n], i + n, 4));
        }
        for (int n = 0; n < 3; n++) {
            CHECK(cudaMemcpy(&got[n], few[n], 4, cudaMemcpyDeviceToHost));
            CHECK(cudaFree(few[n]));
        }
        for (int n = 0; n < 3; n++) TRUE((got[n] & 0xff) == ((i + n) & 0xff));
    }
    return right();
}
