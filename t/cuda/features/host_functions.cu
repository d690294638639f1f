// SPDX-License-Identifier: Apache-2.0
// Host functions and stream callbacks: in order with the stream's other work, with their own data.
#include <atomic>

#include "check.h"

__global__ void add(int *p, int n) { atomicAdd(p, n); }

struct Seen {
    int *pinned;
    int value;
    std::atomic<int> calls;
};
static void CUDART_CB look(void *data)
{
    Seen *s = (Seen *)data;
    s->value = *s->pinned;
    s->calls++;
}
static void CUDART_CB called(cudaStream_t, cudaError_t status, void *data)
{
    Seen *s = (Seen *)data;
    if (status == cudaSuccess) s->calls += 10;
}

int main()
{
    cudaStream_t s;
    CHECK(cudaStreamCreate(&s));
    int *p, *pinned;
    CHECK(cudaMalloc(&p, 4));
    CHECK(cudaMallocHost(&pinned, 4));
    CHECK(cudaMemsetAsync(p, 0, 4, s));
    Seen seen[20] = {};
    for (int i = 0; i < 20; i++) {
        seen[i].pinned = pinned;
        add<<<4, 25, 0, s>>>(p, i);
        CHECK(cudaMemcpyAsync(pinned, p, 4, cudaMemcpyDeviceToHost, s));
        CHECK(cudaLaunchHostFunc(s, look, &seen[i]));
        CHECK(cudaStreamAddCallback(s, called, &seen[i], 0));
    }
    CHECK(cudaStreamSynchronize(s));
    for (int i = 0; i < 20; i++)
        TRUE(seen[i].calls == 11 && seen[i].value == 100 * i * (i + 1) / 2);
    return right();
}
