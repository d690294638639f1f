// SPDX-License-Identifier: Apache-2.0
// What the software GPU's benchmarks are compared with: the same work in C++ on the host, built
// with -O3, and again with -O3 -march=native (host.cc).
#pragma once

#include <cstddef>

#define HOST_FUNCTIONS(suffix) \
    void saxpy_##suffix(std::size_t n, float a, const float *x, float *y); \
    void matmul_##suffix(unsigned n, unsigned first, unsigned last, const float *a, \
                         const float *b, float *c);

HOST_FUNCTIONS(plain)
HOST_FUNCTIONS(native)
