// Misuse that a driver answers at once, and what must still work after it: null handles, launches that
// cannot be, copies past the end, nothing to copy, and a device that was reset.
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

// Zeros go up, are made ones, and come back.
static void works(const char *when)
{
    constexpr int n = 1000;
    std::vector<int> host(n);
    int *words = nullptr;
    wants(cudaMalloc(&words, n * sizeof(int)), cudaSuccess, when);
    wants(cudaMemcpy(words, host.data(), n * sizeof(int), cudaMemcpyHostToDevice), cudaSuccess, when);
    add_one<<<4, 256>>>(words, n);
    wants(cudaMemcpy(host.data(), words, n * sizeof(int), cudaMemcpyDeviceToHost), cudaSuccess, when);
    int right = 0;
    for (int v : host) right += v == 1;
    wants(right == n ? cudaSuccess : cudaErrorUnknown, cudaSuccess, when);
    wants(cudaFree(words), cudaSuccess, when);
}

int main()
{
    int *words, host[32] = {};
    wants(cudaMalloc(&words, 64), cudaSuccess, "cudaMalloc");
    wants(cudaEventDestroy(nullptr), cudaErrorInvalidResourceHandle, "destroying no event");
    wants(cudaEventRecord(nullptr), cudaErrorInvalidResourceHandle, "recording no event");
    wants(launch(0, 1, 0, words), cudaErrorInvalidValue, "a grid of 0 blocks");
    wants(launch(1, 4096, 0, words), cudaErrorInvalidValue, "a block of 4096 threads");
    wants(launch(1, 1, 1 << 20, words), cudaErrorInvalidValue, "1 MiB of shared memory");
    wants(cudaMemcpy(words, host, 128, cudaMemcpyHostToDevice), cudaErrorInvalidValue, "a copy past the end");
    wants(cudaMemcpy(words, host, 0, cudaMemcpyHostToDevice), cudaSuccess, "a copy of nothing");
    wants(cudaMemset(words, 0, 0), cudaSuccess, "a set of nothing");
    wants(cudaFree(host), cudaErrorInvalidValue, "freeing the program's own memory");
    wants(cudaDeviceSynchronize(), cudaSuccess, "waiting: each was told where it happened");
    works("after mistakes");
    wants(cudaDeviceReset(), cudaSuccess, "cudaDeviceReset");
    works("after a reset");
    wants(cudaDeviceReset(), cudaSuccess, "cudaDeviceReset");
    works("after another reset");
    puts(failures ? "FAILED" : "every mistake was told at once");
    return failures ? 1 : 0;
}
