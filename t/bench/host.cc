// SPDX-License-Identifier: Apache-2.0
// Built twice, as HOST_SUFFIX says: see host.h.
#include "host.h"

#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)

void JOIN(saxpy, HOST_SUFFIX)(std::size_t n, float a, const float *x, float *y)
{
    for (std::size_t i = 0; i < n; i++) y[i] = a * x[i] + y[i];
}

// Rows first to last of c = a * b, an element after the other, as the kernel does it.
void JOIN(matmul, HOST_SUFFIX)(unsigned n, unsigned first, unsigned last, const float *a,
                               const float *b, float *c)
{
    for (unsigned row = first; row < last; row++)
        for (unsigned column = 0; column < n; column++) {
            float sum = 0;
            for (unsigned k = 0; k < n; k++) sum += a[row * n + k] * b[k * n + column];
            c[row * n + column] = sum;
        }
}
