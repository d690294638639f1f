// SPDX-License-Identifier: Apache-2.0
// Misuse that a driver answers at once, and what must still work after it: null handles, launches
// that cannot be, copies past the end, nothing to copy, and a device that was reset.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cuda_runtime.h>

static int failures;

static void wants(cudaError_t got, cudaError_t wanted, const char *what)
{
    cudaGetLastError();
    if (got == wanted) return;
    printf("%s: %s, not %s\n", what, cudaGetErrorName(got), cudaGetErrorName(wanted));
    failures++;
}

__global__ void add_one(int *words, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) words[i] += 1;
}

static cudaError_t launch(dim3 grid, dim3 block, size_t shared, int *words)
{
    add_one<<<grid, block, shared>>>(words, 1);
    return cudaGetLastError();
}

__global__ void __launch_bounds__(256) bounded(int *words) { words[threadIdx.x] = 1; }
__global__ void in_shared(int *words)
{
    extern __shared__ int own[];
    own[threadIdx.x] = threadIdx.x;
    words[0] = own[0];
}
__global__ void together(int *words) { words[0] = 1; }

// What the launches of one kernel may be, and what the program may change.
static void limits(int *words)
{
    auto bounded_by = [&](int threads) {
        return bounded<<<1, threads>>>(words), cudaGetLastError();
    };
    auto shared = [&](int bytes) { return in_shared<<<1, 32, bytes>>>(words), cudaGetLastError(); };
    auto allow = [](int bytes) {
        return cudaFuncSetAttribute(in_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    };
    for (int round = 0; round < 3; round++) {
        wants(bounded_by(16), cudaSuccess, "16 threads of 256");
        wants(bounded_by(512), cudaErrorInvalidValue, "512 threads of 256");
        wants(shared(48 << 10), cudaSuccess, "48 KiB of shared memory");
        wants(shared(64 << 10), cudaErrorInvalidValue, "64 KiB of shared memory, unasked");
        wants(allow(64 << 10), cudaSuccess, "allowing 64 KiB");
        wants(shared(64 << 10), cudaSuccess, "64 KiB of shared memory");
        wants(shared(65 << 10), cudaErrorInvalidValue, "65 KiB of shared memory");
        wants(allow(4 << 10), cudaSuccess, "allowing no more than 4 KiB");
        wants(shared(8 << 10), cudaErrorInvalidValue, "8 KiB of shared memory");
        wants(allow(48 << 10), cudaSuccess, "allowing 48 KiB again");
        void *arguments[] = {&words};
        wants(cudaLaunchCooperativeKernel((void *)together, 2, 32, arguments, 0, 0), cudaSuccess,
              "two blocks together");
        wants(cudaLaunchCooperativeKernel((void *)together, 1 << 20, 32, arguments, 0, 0),
              cudaErrorCooperativeLaunchTooLarge, "a million blocks together");
    }
}

// Zeros go up, are made ones, and come back.
static void works(const char *when)
{
    constexpr int n = 1000;
    std::vector<int> host(n);
    int *words = nullptr;
    wants(cudaMalloc(&words, n * sizeof(int)), cudaSuccess, when);
    wants(cudaMemcpy(words, host.data(), n * sizeof(int), cudaMemcpyHostToDevice), cudaSuccess,
          when);
    add_one<<<4, 256>>>(words, n);
    wants(cudaMemcpy(host.data(), words, n * sizeof(int), cudaMemcpyDeviceToHost), cudaSuccess,
          when);
    int right = 0;
    for (int v : host) right += v == 1;
    wants(right == n ? cudaSuccess : cudaErrorUnknown, cudaSuccess, when);
    wants(cudaFree(words), cudaSuccess, when);
}

int main()
{
    int *words, host[32] = {};
    wants(cudaMalloc(&words, 2048), cudaSuccess, "cudaMalloc");
    limits(words);
    wants(cudaFree(words), cudaSuccess, "cudaFree");
    wants(cudaMalloc(&words, 64), cudaSuccess, "cudaMalloc");
    wants(cudaEventDestroy(nullptr), cudaErrorInvalidResourceHandle, "destroying no event");
    wants(cudaEventRecord(nullptr), cudaErrorInvalidResourceHandle, "recording no event");
    wants(launch(0, 1, 0, words), cudaErrorInvalidValue, "a grid of 0 blocks");
    wants(launch(1, 4096, 0, words), cudaErrorInvalidValue, "a block of 4096 threads");
    wants(launch(1, 1, 1 << 20, words), cudaErrorInvalidValue, "1 MiB of shared memory");
    wants(cudaMemcpy(words, host, 128, cudaMemcpyHostToDevice), cudaErrorInvalidValue,
          "a copy past the end");
    wants(cudaMemcpy(words, host, 0, cudaMemcpyHostToDevice), cudaSuccess, "a copy of nothing");
    wants(cudaMemset(words, 0, 0), cudaSuccess, "a set of nothing");
    wants(cudaFree(host), cudaErrorInvalidValue, "freeing the program's own memory");
    cudaMemPool_t own;
    wants(cudaDeviceGetDefaultMemPool(&own, 0), cudaSuccess, "cudaDeviceGetDefaultMemPool");
    wants(cudaMemPoolDestroy(own), cudaErrorInvalidValue,
          "destroying the pool that is the device's own");
    wants(cudaDeviceSynchronize(), cudaSuccess, "waiting: each was told where it happened");
    works("after mistakes");
    wants(cudaDeviceReset(), cudaSuccess, "cudaDeviceReset");
    works("after a reset");
    wants(cudaDeviceReset(), cudaSuccess, "cudaDeviceReset");
    works("after another reset");
    puts(failures ? "FAILED" : "every mistake was told at once");
    return failures ? 1 : 0;
}
