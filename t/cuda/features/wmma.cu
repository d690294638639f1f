// SPDX-License-Identifier: Apache-2.0
// Tensor cores as CUDA C++ has them (mma.h): every type and shape of compute_80, rows and columns,
// against plain sums.
#include <mma.h>

#include "check.h"

using namespace nvcuda;

template <class T> __host__ __device__ T small(int i) { return T(float((i * 7 + i / 5) % 9) - 4); }
template <> __host__ __device__ unsigned char small<unsigned char>(int i) { return (i * 31) % 256; }
template <> __host__ __device__ signed char small<signed char>(int i)
{
    return static_cast<signed char>((i * 37) % 255 - 127);
}

// Storage is what the memory holds, Type what the fragment is of: tf32 lies in floats.
template <int m, int n, int k, class Type, class Storage, class Sum, class LayoutA, class LayoutB>
__global__ void product(const Storage *a, const Storage *b, Sum *c)
{
    constexpr bool a_rows = std::is_same_v<LayoutA, wmma::row_major>,
                   b_rows = std::is_same_v<LayoutB, wmma::row_major>;
    wmma::fragment<wmma::matrix_a, m, n, k, Type, LayoutA> fa;
    wmma::fragment<wmma::matrix_b, m, n, k, Type, LayoutB> fb;
    wmma::fragment<wmma::accumulator, m, n, k, Sum> fc;
    wmma::load_matrix_sync(fa, a, a_rows ? k : m);
    wmma::load_matrix_sync(fb, b, b_rows ? n : k);
    wmma::load_matrix_sync(fc, c, n, wmma::mem_row_major);
    for (int i = 0; i < fc.num_elements; i++) fc.x[i] = fc.x[i] + Sum(1);
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(c, fc, m, wmma::mem_col_major);
}

template <int m, int n, int k, class Type, class Storage, class Sum, class LayoutA, class LayoutB>
void layouts()
{
    constexpr bool a_rows = std::is_same_v<LayoutA, wmma::row_major>,
                   b_rows = std::is_same_v<LayoutB, wmma::row_major>;
    Storage *a, *b;
    Sum *c;
    CHECK(cudaMallocManaged(&a, m * k * sizeof(Storage)));
    CHECK(cudaMallocManaged(&b, k * n * sizeof(Storage)));
    CHECK(cudaMallocManaged(&c, m * n * sizeof(Sum)));
    for (int i = 0; i < m * k; i++) a[i] = small<Storage>(i);
    for (int i = 0; i < k * n; i++) b[i] = small<Storage>(i + 3);
    for (int i = 0; i < m * n; i++) c[i] = Sum(float(i % 3));
    product<m, n, k, Type, Storage, Sum, LayoutA, LayoutB><<<1, 32>>>(a, b, c);
    CHECK(cudaDeviceSynchronize());
    for (int r = 0; r < m; r++)
        for (int q = 0; q < n; q++) {
            double sum = (r * n + q) % 3 + 1;
            for (int i = 0; i < k; i++)
                sum += double(float(a[a_rows ? r * k + i : i * m + r])) *
                       double(float(b[b_rows ? i * n + q : q * k + i]));
            if (double(float(c[q * m + r])) == sum) continue;
            printf("m%dn%dk%d, row %d, column %d: %g, not %g\n", m, n, k, r, q,
                   double(float(c[q * m + r])), sum);
            exit(1);
        }
    CHECK(cudaFree(a));
    CHECK(cudaFree(b));
    CHECK(cudaFree(c));
}

template <int m, int n, int k, class Type, class Storage, class Sum> void all()
{
    layouts<m, n, k, Type, Storage, Sum, wmma::row_major, wmma::row_major>();
    layouts<m, n, k, Type, Storage, Sum, wmma::row_major, wmma::col_major>();
    layouts<m, n, k, Type, Storage, Sum, wmma::col_major, wmma::row_major>();
    layouts<m, n, k, Type, Storage, Sum, wmma::col_major, wmma::col_major>();
}
template <class Type, class Sum> void shapes()
{
    all<16, 16, 16, Type, Type, Sum>();
    all<8, 32, 16, Type, Type, Sum>();
    all<32, 8, 16, Type, Type, Sum>();
}

int main()
{
    shapes<__half, float>();
    shapes<__half, __half>();
    shapes<__nv_bfloat16, float>();
    shapes<signed char, int>();
    shapes<unsigned char, int>();
    all<16, 16, 8, wmma::precision::tf32, float, float>();
    all<8, 8, 4, double, double, double>();
    return right();
}
