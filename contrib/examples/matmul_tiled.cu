// SPDX-License-Identifier: Apache-2.0
// Multiplies two matrices, tile by tile through shared memory.
//
//   matmul_tiled [ROWS]
//
// A block computes one 16x16 tile of the product. It walks along a row of tiles of A and a column of tiles
// of B; each time its threads load the two tiles into shared memory together, so that every number
// is read from global memory 16 times less often. The matrix may stick out of the last tile.
//
// The matrices hold small whole numbers: float sums of their products are exact, and every one
// of them must be equal to the CPU's.

#include <vector>

#include "example.h"

constexpr int kTile = 16;

__global__ void multiply(const float *a, const float *b, float *product, int n)
{
    __shared__ float tile_a[kTile][kTile];
    __shared__ float tile_b[kTile][kTile];
    const int x = threadIdx.x, y = threadIdx.y;
    const int row = blockIdx.y * kTile + y, column = blockIdx.x * kTile + x;

    float sum = 0;
    for (int first = 0; first < n; first += kTile) {
        tile_a[y][x] = row < n && first + x < n ? a[row * n + first + x] : 0;
        tile_b[y][x] = first + y < n && column < n ? b[(first + y) * n + column] : 0;
        __syncthreads();  // both tiles are complete
        for (int k = 0; k < kTile; k++)
            sum += tile_a[y][k] * tile_b[k][x];
        __syncthreads();  // everybody has read them: they may change
    }
    if (row < n && column < n)
        product[row * n + column] = sum;
}

int main(int argc, char **argv)
{
    const int n = size_argument(argc, argv, "ROWS", 200, "Multiplies two ROWS x ROWS matrices.");
    const size_t count = size_t(n) * n, bytes = count * sizeof(float);
    print_device();

    std::vector<float> a(count), b(count), product(count), expected(count);
    for (size_t i = 0; i < count; i++) {
        a[i] = float(i % 13) - 6;
        b[i] = float(i % 7) - 3;
    }

    float *gpu_a, *gpu_b, *gpu_product;
    CHECK(cudaMalloc(&gpu_a, bytes));
    CHECK(cudaMalloc(&gpu_b, bytes));
    CHECK(cudaMalloc(&gpu_product, bytes));
    CHECK(cudaMemcpy(gpu_a, a.data(), bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(gpu_b, b.data(), bytes, cudaMemcpyHostToDevice));

    const int tiles = (n + kTile - 1) / kTile;
    multiply<<<dim3(tiles, tiles), dim3(kTile, kTile)>>>(gpu_a, gpu_b, gpu_product, n);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(product.data(), gpu_product, bytes, cudaMemcpyDeviceToHost));

    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++)
            for (int j = 0; j < n; j++)
                expected[size_t(i) * n + j] += a[size_t(i) * n + k] * b[size_t(k) * n + j];
    int wrong = 0;
    for (size_t i = 0; i < count; i++)
        wrong += product[i] != expected[i];
    CHECK(cudaFree(gpu_a));
    CHECK(cudaFree(gpu_b));
    CHECK(cudaFree(gpu_product));
    printf("multiplied two %d x %d matrices in %d tiles of %d x %d\n", n, n, tiles * tiles, kTile, kTile);
    return verdict(wrong, int(count));
}
