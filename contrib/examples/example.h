// SPDX-License-Identifier: Apache-2.0
// What every example needs: error checks, one size on the command line, the device's name, the verdict.

#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <cuda_runtime.h>

// Ends the program with the error's name and place when a CUDA call fails.
#define CHECK(call)                                                                             \
    do {                                                                                        \
        cudaError_t check_error = (call);                                                       \
        if (check_error != cudaSuccess) {                                                       \
            fprintf(stderr, "%s:%d: %s: %s (%s)\n", __FILE__, __LINE__, #call,                  \
                    cudaGetErrorName(check_error), cudaGetErrorString(check_error));            \
            exit(1);                                                                            \
        }                                                                                       \
    } while (0)

// The number on the command line, or `standard`. --help prints `what` and ends the program.
inline int size_argument(int argc, char **argv, const char *name, int standard, const char *what)
{
    if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
        printf("usage: %s [%s]\n%s\n%s: 1 or more [%d]\n", argv[0], name, what, name, standard);
        exit(0);
    }
    if (argc <= 1)
        return standard;
    char *end;
    long n = strtol(argv[1], &end, 10);
    if (argc > 2 || *end || n < 1 || n > 1 << 28) {
        fprintf(stderr, "usage: %s [%s], see --help\n", argv[0], name);
        exit(2);
    }
    return int(n);
}

inline void print_device(int device = 0)
{
    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, device));
    printf("device %d: %s, compute capability %d.%d, %zu MiB\n", device, properties.name, properties.major,
           properties.minor, properties.totalGlobalMem >> 20);
}

// Says whether all `total` results are right; the program's exit status.
inline int verdict(int wrong, int total)
{
    if (wrong)
        printf("WRONG: %d of %d results differ from the CPU's\n", wrong, total);
    else
        printf("right: all %d results are what the CPU computes\n", total);
    return wrong ? 1 : 0;
}
