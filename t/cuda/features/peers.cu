// SPDX-License-Identifier: Apache-2.0
// Peer access and copies between two devices; with one device it says so and is done.
#include "check.h"

__global__ void add_from(int *mine, const int *theirs, int n)
{
    for (int i = threadIdx.x; i < n; i += blockDim.x) mine[i] += theirs[i];
}

int main()
{
    int devices = 0, can = 0;
    CHECK(cudaGetDeviceCount(&devices));
    if (devices < 2) return printf("one device only\n"), right();
    CHECK(cudaDeviceCanAccessPeer(&can, 0, 1));
    TRUE(can);
    const int n = 1000;
    int *a, *b;
    std::vector<int> in(n), got(n);
    for (int i = 0; i < n; i++) in[i] = i;
    CHECK(cudaSetDevice(1));
    CHECK(cudaMalloc(&b, n * 4));
    CHECK(cudaMemcpy(b, in.data(), n * 4, cudaMemcpyHostToDevice));
    CHECK(cudaSetDevice(0));
    CHECK(cudaMalloc(&a, n * 4));
    CHECK(cudaMemcpyPeer(a, 0, b, 1, n * 4));
    CHECK(cudaDeviceEnablePeerAccess(1, 0));
    FAILS(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessAlreadyEnabled);
    add_from<<<1, 128>>>(a, b, n);
    CHECK(cudaMemcpyPeerAsync(b, 1, a, 0, n * 4, nullptr));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(got.data(), b, n * 4, cudaMemcpyDefault));
    for (int i = 0; i < n; i++) TRUE(got[i] == 2 * i);
    cudaPointerAttributes p;
    CHECK(cudaPointerGetAttributes(&p, b));
    TRUE(p.device == 1 && p.type == cudaMemoryTypeDevice);
    CHECK(cudaDeviceDisablePeerAccess(1));
    FAILS(cudaDeviceDisablePeerAccess(1), cudaErrorPeerAccessNotEnabled);
    return right();
}
