// SPDX-License-Identifier: Apache-2.0
// A program of two files that call each other's device functions: nvcc -rdc=true, the second with
// -DSECOND.
#include <cstdio>

#ifdef SECOND
__constant__ int factor = 2;
__device__ int times(int x) { return factor * x; }
#else
extern __constant__ int factor;
extern __device__ int times(int);
__global__ void use(int *p) { p[threadIdx.x] = times(threadIdx.x) + factor; }

int main()
{
    int *d, h[32], wrong = cudaMalloc(&d, sizeof h) != cudaSuccess;
    const int three = 3;
    wrong += cudaMemcpyToSymbol(factor, &three, sizeof three) != cudaSuccess;
    use<<<1, 32>>>(d);
    wrong += cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost) != cudaSuccess;
    for (int i = 0; i < 32; i++) wrong += h[i] != 3 * i + 3;
    printf(wrong ? "wrong\n" : "right\n");
}
#endif
