// SPDX-License-Identifier: Apache-2.0
// Looks at mapped memory while work that may write it is under way, and calls nothing: what cannot
// work with a remote GPU. Ends with 0 when standard error has told so, with 1 when it has not after
// 20 seconds.
#include <cuda_runtime.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <unistd.h>

#define CHECK(call) \
    do { \
        cudaError_t error = (call); \
        if (error != cudaSuccess) { \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #call, cudaGetErrorName(error)); \
            exit(2); \
        } \
    } while (0)

__global__ void set(volatile int *p) { *p = 1; }

static std::atomic<bool> go_on;
static void wait_here(void *)
{
    while (!go_on) std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

// What was written to standard error, which is a file here.
static bool told(int fd, const char *text)
{
    static char seen[65536];
    const ssize_t n = pread(fd, seen, sizeof seen - 1, 0);
    return n > 0 && (seen[n] = 0, strstr(seen, text));
}

int main()
{
    int *p;
    CHECK(cudaHostAlloc(&p, sizeof *p, cudaHostAllocMapped));
    *p = 0;
    // Calls go on, for longer than the warning waits: it must not come.
    CHECK(cudaLaunchHostFunc(0, wait_here, nullptr));
    set<<<1, 1>>>(p);
    auto start = std::chrono::steady_clock::now();
    auto since = [&] { return std::chrono::steady_clock::now() - start; };
    FILE *file = tmpfile();
    const int error = dup(2);
    dup2(fileno(file), 2);
    while (since() < std::chrono::seconds(3)) {
        if (cudaStreamQuery(0) != cudaErrorNotReady) return 3;
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    const bool early = told(fileno(file), "CUDA call");
    start = std::chrono::steady_clock::now();
    volatile int *flag = p;
    while (!*flag && !told(fileno(file), "CUDA call") && since() < std::chrono::seconds(20))
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const bool late = told(fileno(file), "CUDA call");
    dup2(error, 2);
    go_on = true;
    CHECK(cudaDeviceSynchronize());
    printf("%s, %s, then %d\n", early ? "told too early" : "not told while it calls",
           late ? "told" : "not told", *p);
    return early || !late || *p != 1;
}
