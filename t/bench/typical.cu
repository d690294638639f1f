// SPDX-License-Identifier: Apache-2.0
// A kernel of the size and kind that most programs have: how long does it take to compile?
extern "C" __global__ void typical(const float *in, float *out, unsigned n)
{
    __shared__ float partial[32];
    float sum = 0;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        sum += in[i] * in[i];
    for (int step = 16; step; step /= 2) sum += __shfl_down_sync(~0u, sum, step);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = threadIdx.x < blockDim.x / 32 ? partial[threadIdx.x] : 0;
        for (int step = 16; step; step /= 2) sum += __shfl_down_sync(~0u, sum, step);
        if (threadIdx.x == 0) out[blockIdx.x] = sqrtf(sum);
    }
}
