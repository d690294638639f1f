// SPDX-License-Identifier: Apache-2.0
// How much memory a program gets, in pieces of 1 MiB, until there is no more.
//
//   memory_cap linear|pool|managed|array [HOLD]   prints "total T free F got G", bytes; with HOLD,
//   makes that file
//                                                 and keeps the memory until it has gone.
#include <cstdio>
#include <cstring>
#include <unistd.h>

#include <cuda_runtime.h>

__device__ unsigned char global[8 << 20];

__global__ void touch(unsigned char *bytes) { global[0] = bytes[0] = 1; }

static cudaError_t take(const char *how, void **p)
{
    constexpr size_t kPiece = 1 << 20;
    cudaArray_t array;
    cudaChannelFormatDesc bytes = cudaCreateChannelDesc<unsigned char>();
    if (!strcmp(how, "pool")) return cudaMallocAsync(p, kPiece, nullptr);
    if (!strcmp(how, "managed")) return cudaMallocManaged(p, kPiece);
    if (!strcmp(how, "array")) return cudaMallocArray(&array, &bytes, 1024, 1024);
    return cudaMalloc(p, kPiece);
}

int main(int argc, char **argv)
{
    cudaDeviceProp device;
    size_t free = 0, total = 0, got = 0;
    unsigned char *first;
    if (cudaGetDeviceProperties(&device, 0) || cudaMalloc(&first, 1) ||
        (touch<<<1, 1>>>(first), cudaDeviceSynchronize()) || cudaMemGetInfo(&free, &total))
        return puts(cudaGetErrorName(cudaGetLastError())), 3;
    if (device.totalGlobalMem != total)
        return printf("the device has %zu, its memory info says %zu\n", device.totalGlobalMem,
                      total),
               4;
    cudaError_t status;
    for (void *p = nullptr; (status = take(argv[1], &p)) == cudaSuccess; got += 1 << 20) {}
    if (status != cudaErrorMemoryAllocation) return puts(cudaGetErrorName(status)), 3;
    printf("total %zu free %zu got %zu\n", total, free, got);
    fflush(stdout);
    if (argc > 2 && fopen(argv[2], "w"))
        while (!access(argv[2], F_OK)) usleep(20000);
    return 0;
}
