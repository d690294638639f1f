// SPDX-License-Identifier: Apache-2.0
// Kernels as a program meets them: launches and their limits, symbols, attributes, occupancy,
// managed variables, cooperative launch, printf; and each way in which a kernel fails, in a process
// of its own.
#include "check.h"
#include <cooperative_groups.h>

#include <sys/wait.h>
#include <unistd.h>

#undef NDEBUG
#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <string>

__constant__ int table[4] = {10, 20, 30, 40};
__device__ int counter = 5;
__device__ int *address_of_counter = &counter;
__managed__ int shared_with_host = 7;

__global__ void use_symbols(int *out)
{
    if (threadIdx.x < 4)
        out[threadIdx.x] = table[threadIdx.x] + *address_of_counter + shared_with_host;
    __syncthreads();
    if (threadIdx.x == 0) {
        counter = 100;
        shared_with_host++;
    }
}

static void symbols()
{
    int *d, out[4];
    CHECK(cudaMalloc(&d, sizeof out));
    const int changed[2] = {11, 21};
    CHECK(cudaMemcpyToSymbol(table, changed, sizeof changed));
    shared_with_host = 1000;
    use_symbols<<<1, 32>>>(d);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(out, d, sizeof out, cudaMemcpyDeviceToHost));
    TRUE(out[0] == 1016 && out[1] == 1026 && out[2] == 1035 && out[3] == 1045);
    TRUE(shared_with_host == 1001);
    int value;
    CHECK(cudaMemcpyFromSymbol(&value, counter, sizeof value));
    TRUE(value == 100);
    size_t bytes;
    CHECK(cudaGetSymbolSize(&bytes, table));
    TRUE(bytes == sizeof(table));
    CHECK(cudaFree(d));
}

__global__ void __launch_bounds__(256) bounded(int *out) { out[threadIdx.x] = 1; }

__global__ void sum_shared(int *out, int n)
{
    extern __shared__ int values[];
    for (int i = threadIdx.x; i < n; i += blockDim.x) values[i] = i;
    __syncthreads();
    if (threadIdx.x == 0) {
        int sum = 0;
        for (int i = 0; i < n; i++) sum += values[i];
        out[blockIdx.x] = sum;
    }
}

// All the shared memory that a block may ask for.
static void whole_shared()
{
    int *d, out, bytes;
    CHECK(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
    CHECK(cudaMalloc(&d, sizeof out));
    CHECK(cudaFuncSetAttribute(sum_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    const int n = bytes / 4;
    sum_shared<<<1, 32, bytes>>>(d, n);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(&out, d, sizeof out, cudaMemcpyDeviceToHost));
    TRUE(unsigned(out) == unsigned(n * (n - 1ll) / 2));
    FAILS(cudaFuncSetAttribute(sum_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes + 1),
          cudaErrorInvalidValue);
    CHECK(cudaFree(d));
    printf("shared memory of a block: %d\n", bytes);
}

static void limits()
{
    int *d;
    CHECK(cudaMalloc(&d, 4096));
    bounded<<<1, 256>>>(d);
    CHECK(cudaGetLastError());
    bounded<<<1, 512>>>(d);
    TRUE(cudaGetLastError() != cudaSuccess);
    sum_shared<<<1, 2048>>>(d, 1);
    TRUE(cudaGetLastError() != cudaSuccess);
    sum_shared<<<dim3(1, 70000), 1>>>(d, 1);
    TRUE(cudaGetLastError() != cudaSuccess);
    sum_shared<<<0, 1>>>(d, 1);
    TRUE(cudaGetLastError() != cudaSuccess);

    const int n = 20000;  // 80,000 bytes: more than what a launch gets unasked
    sum_shared<<<1, 32, n * 4>>>(d, n);
    FAILS(cudaGetLastError(), cudaErrorInvalidValue);
    CHECK(cudaFuncSetAttribute(sum_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, n * 4));
    sum_shared<<<2, 32, n * 4>>>(d, n);
    CHECK(cudaGetLastError());
    int out[2];
    CHECK(cudaMemcpy(out, d, sizeof out, cudaMemcpyDeviceToHost));
    TRUE(out[0] == n * (n - 1) / 2 && out[1] == out[0]);
    FAILS(cudaFuncSetAttribute(sum_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, 1 << 20),
          cudaErrorInvalidValue);

    cudaFuncAttributes a;
    CHECK(cudaFuncGetAttributes(&a, bounded));
    TRUE(a.maxThreadsPerBlock == 256 && a.ptxVersion == 80);
    int blocks, grid, block;
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, bounded, 256, 0));
    TRUE(blocks >= 1);
    CHECK(cudaOccupancyMaxPotentialBlockSize(&grid, &block, bounded, 0, 0));
    TRUE(grid >= 1 && block >= 32 && block <= 256);
    CHECK(cudaFree(d));
}

__global__ void meet(int *counts, int blocks)
{
    cooperative_groups::grid_group g = cooperative_groups::this_grid();
    for (int round = 0; round < 3; round++) {
        if (threadIdx.x == 0) atomicAdd(&counts[round], 1);
        g.sync();
        // Nobody is past the barrier before all have counted.
        if (threadIdx.x == 0 && *(volatile int *)&counts[round] != blocks) counts[3] = 1;
    }
}

static void cooperative()
{
    int *d, out[4], sms, fit;
    CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&fit, meet, 64, 0));
    int blocks = sms * (fit < 4 ? fit : 4);
    CHECK(cudaMalloc(&d, sizeof out));
    CHECK(cudaMemset(d, 0, sizeof out));
    void *arguments[] = {&d, &blocks};
    CHECK(cudaLaunchCooperativeKernel((void *)meet, blocks, 64, arguments, 0, 0));
    CHECK(cudaMemcpy(out, d, sizeof out, cudaMemcpyDeviceToHost));
    TRUE(out[0] == blocks && out[1] == blocks && out[2] == blocks && out[3] == 0);
    FAILS(cudaLaunchCooperativeKernel((void *)meet, 100000, 64, arguments, 0, 0),
          cudaErrorCooperativeLaunchTooLarge);
    cudaGetLastError();
    CHECK(cudaFree(d));
}

__global__ void say(int x)
{
    printf("device says %d %s %.1f\n", x + (int)threadIdx.x, "text", 1.5);
}

// Device printf comes out when the program synchronises, after what the host printed before.
static void printing()
{
    int fds[2];
    fflush(stdout);
    TRUE(pipe(fds) == 0);
    const int old = dup(1);
    dup2(fds[1], 1);
    say<<<1, 2>>>(40);
    printf("host\n");
    fflush(stdout);
    CHECK(cudaDeviceSynchronize());
    dup2(old, 1);
    close(fds[1]);
    std::string got;
    char buffer[256];
    for (ssize_t n; (n = read(fds[0], buffer, sizeof buffer)) > 0;) got.append(buffer, n);
    TRUE(got == "host\ndevice says 40 text 1.5\ndevice says 41 text 1.5\n");
}

__global__ void write_to(int *p) { *p = 1; }
__global__ void trap() { asm("trap;"); }
__global__ void fail_assertion(int x) { assert(x == 1); }

template <class Launch>
static void ends_with(cudaError_t error, const char *what, const Launch &launch)
{
    fflush(stdout);
    const pid_t child = fork();
    if (!child) {
        launch();
        CHECK(cudaGetLastError());
        FAILS(cudaDeviceSynchronize(), error);
        // It stays so.
        void *p;
        FAILS(cudaMalloc(&p, 16), error);
        FAILS(cudaStreamSynchronize(0), error);
        fflush(stdout);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    if (status) printf("kernel %s: its process ended with status %x\n", what, status), exit(1);
}

static void failures()
{
    ends_with(cudaErrorIllegalAddress, "with a null pointer", [] { write_to<<<1, 1>>>(nullptr); });
    ends_with(cudaErrorIllegalAddress, "with freed memory", [] {
        int *p;
        CHECK(cudaMalloc(&p, 4 << 20));
        CHECK(cudaFree(p));
        write_to<<<1, 1>>>(p);
    });
    ends_with(cudaErrorLaunchFailure, "that traps", [] { trap<<<1, 1>>>(); });
    ends_with(cudaErrorAssert, "with an assertion", [] { fail_assertion<<<1, 1>>>(2); });
}

int main()
{
    failures();  // first: a process that has used CUDA cannot fork others that do
    symbols();
    limits();
    whole_shared();
    cooperative();
    printing();
    CHECK(cudaDeviceReset());
    int *d, out[4];
    CHECK(cudaMalloc(&d, sizeof out));
    shared_with_host = 0;
    use_symbols<<<1, 32>>>(d);
    CHECK(cudaMemcpy(out, d, sizeof out, cudaMemcpyDeviceToHost));
    TRUE(out[0] == 15);  // the module's variables are as the program has them again
    printf("soft_kernels: ok\n");
}
