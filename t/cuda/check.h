// What the test programs are made of: a call that must succeed, and a condition that must hold.
#pragma once

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

#define CHECK(call) \
    do \
        if (cudaError_t failed = (call)) \
            printf("line %d: %s gave %s\n", __LINE__, #call, cudaGetErrorName(failed)), exit(1); \
    while (0)
#define TRUE(x) \
    do \
        if (!(x)) printf("line %d: not true: %s\n", __LINE__, #x), exit(1); \
    while (0)
