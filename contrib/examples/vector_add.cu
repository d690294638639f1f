// SPDX-License-Identifier: Apache-2.0
// Adds two vectors on the GPU: the smallest complete CUDA program.
//
//   vector_add [NUMBERS]
//
// One thread adds one pair of numbers. Exit status 0 means that every sum is what the CPU computes.

#include <cstdlib>
#include <vector>

#include "example.h"

__global__ void add(const float *a, const float *b, float *sum, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)  // the last block may stick out
        sum[i] = a[i] + b[i];
}

int main(int argc, char **argv)
{
    const int n = size_argument(argc, argv, "NUMBERS", 1000003, "Adds two vectors of NUMBERS floats.");
    const size_t bytes = n * sizeof(float);
    print_device();

    std::vector<float> a(n), b(n), sum(n);
    for (int i = 0; i < n; i++) {
        a[i] = 0.5f * i;
        b[i] = float(n - i);
    }

    float *on_gpu[3];
    for (float *&p : on_gpu)
        CHECK(cudaMalloc(&p, bytes));
    CHECK(cudaMemcpy(on_gpu[0], a.data(), bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(on_gpu[1], b.data(), bytes, cudaMemcpyHostToDevice));

    const int block = 256, grid = (n + block - 1) / block;
    add<<<grid, block>>>(on_gpu[0], on_gpu[1], on_gpu[2], n);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(sum.data(), on_gpu[2], bytes, cudaMemcpyDeviceToHost));

    int wrong = 0;
    for (int i = 0; i < n; i++)
        wrong += sum[i] != a[i] + b[i];
    for (float *p : on_gpu)
        CHECK(cudaFree(p));
    printf("added %d pairs of numbers in %d blocks of %d threads\n", n, grid, block);
    return verdict(wrong, n);
}
