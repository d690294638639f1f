// SPDX-License-Identifier: Apache-2.0
// Independent thread scheduling: who spins does not keep others from what it waits for. Between
// threads of a warp, of a block, blocks of a grid, kernels of two streams, and with plain, volatile
// and atomic loads.
#include "check.h"

// A lock taken by every thread of every block.
__global__ void locked(int *lock, int *counter)
{
    for (bool done = false; !done;) {
        if (atomicCAS(lock, 0, 1) == 0) {
            __threadfence();
            *(volatile int *)counter = *(volatile int *)counter + 1;
            __threadfence();
            atomicExch(lock, 0);
            done = true;
        }
    }
}

// The straightforward lock, that hung before Volta.
__global__ void plainly_locked(int *lock, int *counter)
{
    while (atomicCAS(lock, 0, 1) != 0) {}
    __threadfence();
    *(volatile int *)counter = *(volatile int *)counter + 1;
    __threadfence();
    atomicExch(lock, 0);
}

// Lane 31 sets what lane 0 waits for.
__global__ void inside_a_warp(volatile int *flag, int *out)
{
    if (threadIdx.x == 0)
        while (*flag == 0) {}
    else if (threadIdx.x == 31)
        *flag = 1;
    __syncwarp();
    out[threadIdx.x] = *flag;
}

// Block i waits for block i + 1: with fewer cores than blocks all the others must run.
__global__ void chain(volatile int *flags, int blocks)
{
    if (threadIdx.x) return;
    const int i = blockIdx.x;
    if (i + 1 < blocks)
        while (!flags[i + 1]) {}
    __threadfence();
    flags[i] = 1;
}

__global__ void waits(int *flag, int *out)
{
    while (atomicAdd(flag, 0) == 0) __nanosleep(100);
    *out = 7;
}
__global__ void waits_reading(const volatile int *flag, int *out)
{
    while (*flag == 0) {}
    *out = 8;
}
__global__ void tells(int *flag) { atomicExch(flag, 1); }

int main()
{
    int *m, got[40] = {};
    CHECK(cudaMalloc(&m, 4096));
    CHECK(cudaMemset(m, 0, 4096));
    locked<<<20, 64>>>(m, m + 1);
    plainly_locked<<<10, 96>>>(m + 2, m + 3);
    CHECK(cudaMemcpy(got, m, 16, cudaMemcpyDeviceToHost));
    TRUE(got[1] == 20 * 64 && got[3] == 10 * 96);

    CHECK(cudaMemset(m, 0, 4096));
    inside_a_warp<<<1, 32>>>(m, m + 1);
    CHECK(cudaMemcpy(got, m, 33 * 4, cudaMemcpyDeviceToHost));
    for (int i = 1; i < 33; i++) TRUE(got[i] == 1);

    CHECK(cudaMemset(m, 0, 4096));
    chain<<<32, 64>>>(m, 32);
    CHECK(cudaMemcpy(got, m, 32 * 4, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 32; i++) TRUE(got[i] == 1);

    load_ahead(waits);
    load_ahead(waits_reading);
    load_ahead(tells);
    cudaStream_t a, b, c;
    CHECK(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&c, cudaStreamNonBlocking));
    for (int round = 0; round < 5; round++) {
        CHECK(cudaMemset(m, 0, 4096));
        CHECK(cudaDeviceSynchronize());
        waits<<<4, 64, 0, a>>>(m, m + 1);
        waits_reading<<<4, 64, 0, b>>>(m, m + 2);
        tells<<<1, 1, 0, c>>>(m);
        CHECK(cudaDeviceSynchronize());
        CHECK(cudaMemcpy(got, m, 12, cudaMemcpyDeviceToHost));
        TRUE(got[1] == 7 && got[2] == 8);
    }
    return right();
}
