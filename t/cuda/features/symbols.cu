// SPDX-License-Identifier: Apache-2.0
// __constant__ and __device__ variables: copied by symbol, initialised, holding addresses, with
// alignment and structs.
#include "check.h"

struct Pair {
    char c;
    double d;
};
__constant__ float coefficients[4] = {1, 2, 3, 4};
__device__ int counter = 41;
__device__ int *pointer = &counter;
__device__ Pair pair = {'x', 2.5};
__constant__ const char *words[] = {"one", "two", "three"};
static __device__ int hidden[3];

__device__ int triple(int x) { return 3 * x; }
__device__ int (*function)(int) = triple;

__global__ void evaluate(float x, float *out)
{
    *out = coefficients[0] + x * (coefficients[1] + x * (coefficients[2] + x * coefficients[3]));
    ++*pointer;
    hidden[1] = function(counter);
    pair.d += words[2][4] == 'e' && words[0][3] == 0;
}

int main()
{
    float *out, y;
    CHECK(cudaMalloc(&out, 4));
    evaluate<<<1, 1>>>(2, out);
    CHECK(cudaMemcpy(&y, out, 4, cudaMemcpyDeviceToHost));
    TRUE(y == 1 + 2 * (2 + 2 * (3 + 2 * 4)));
    const float more[2] = {10, 20};
    CHECK(cudaMemcpyToSymbol(coefficients, more, 8, 4));
    evaluate<<<1, 1>>>(1, out);
    CHECK(cudaMemcpy(&y, out, 4, cudaMemcpyDeviceToHost));
    TRUE(y == 1 + 10 + 20 + 4);
    int n, h[3];
    Pair p;
    CHECK(cudaMemcpyFromSymbol(&n, counter, 4));
    CHECK(cudaMemcpyFromSymbol(h, hidden, 12));
    CHECK(cudaMemcpyFromSymbol(&p, pair, sizeof p));
    TRUE(n == 43 && h[0] == 0 && h[1] == 3 * 43 && p.c == 'x' && p.d == 4.5);
    void *address;
    size_t bytes;
    CHECK(cudaGetSymbolAddress(&address, counter));
    CHECK(cudaGetSymbolSize(&bytes, coefficients));
    TRUE(bytes == 16);
    CHECK(cudaMemset(address, 0, 4));
    CHECK(cudaMemcpyFromSymbol(&n, counter, 4));
    TRUE(n == 0);
    FAILS(cudaMemcpyToSymbol(counter, h, 8), cudaErrorInvalidValue);
    return right();
}
