// SPDX-License-Identifier: Apache-2.0
// What the small programs share: a check says its line and ends the program with 1. A program that
// has seen everything right prints "right" and returns 0.
#pragma once

#include "../check.h"

#include <cuda.h>

#include <vector>

#define DRIVER(call) expect_driver(call, CUDA_SUCCESS, #call, __LINE__)
#define DRIVER_FAILS(call, error) expect_driver(call, error, #call, __LINE__)

inline void expect_driver(CUresult got, CUresult wanted, const char *call, int line)
{
    if (got == wanted) return;
    printf("line %d: %s gave %d, not %d\n", line, call, got, wanted);
    exit(1);
}

// Where no document names the error: NVIDIA's driver may give another one.
#define REFUSED(call, error) expect_refusal(call, error, #call, __LINE__)
inline void expect_refusal(CUresult got, CUresult ours, const char *call, int line)
{
    if (got == CUDA_SUCCESS || on_softgpu()) expect_driver(got, ours, call, line);
}

inline int right()
{
    printf("right\n");
    return 0;
}
