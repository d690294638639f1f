// What the small programs share: a check says its line and ends the program with 1. A program that
// has seen everything right prints "right" and returns 0.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CHECK(call) expect(call, cudaSuccess, #call, __LINE__)
#define FAILS(call, error) expect(call, error, #call, __LINE__)
#define DRIVER(call) expect_driver(call, CUDA_SUCCESS, #call, __LINE__)
#define DRIVER_FAILS(call, error) expect_driver(call, error, #call, __LINE__)
#define TRUE(x) \
    do \
        if (!(x)) printf("line %d: not true: %s\n", __LINE__, #x), exit(1); \
    while (0)

inline void expect(cudaError_t got, cudaError_t wanted, const char *call, int line)
{
    if (got == wanted) return;
    printf("line %d: %s gave %s, not %s\n", line, call, cudaGetErrorName(got),
           cudaGetErrorName(wanted));
    exit(1);
}

inline void expect_driver(CUresult got, CUresult wanted, const char *call, int line)
{
    if (got == wanted) return;
    printf("line %d: %s gave %d, not %d\n", line, call, got, wanted);
    exit(1);
}

inline int right()
{
    printf("right\n");
    return 0;
}
