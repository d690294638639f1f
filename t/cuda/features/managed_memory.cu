// SPDX-License-Identifier: Apache-2.0
// Managed memory: allocated and as __managed__ variables, used by host and kernels in turn, with
// advice and prefetches.
#include "check.h"

__managed__ int counter = 5;
__managed__ float table[64];

__global__ void add(int *a, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) a[i] += counter;
    if (i < 64) table[i] = 2.0f * i;
}

int main()
{
    const int n = 100000;
    int *a;
    CHECK(cudaMallocManaged(&a, n * sizeof(int)));
    for (int i = 0; i < n; i++) a[i] = i;
    counter = 7;
    CHECK(cudaMemAdvise(a, n * sizeof(int), cudaMemAdviseSetReadMostly,
                        cudaMemLocation{cudaMemLocationTypeDevice, 0}));
    CHECK(cudaMemAdvise(a, 4096, cudaMemAdviseSetPreferredLocation,
                        cudaMemLocation{cudaMemLocationTypeHost, 0}));
    CHECK(cudaMemPrefetchAsync(a, n * sizeof(int), cudaMemLocation{cudaMemLocationTypeDevice, 0}, 0,
                               nullptr));
    add<<<(n + 255) / 256, 256>>>(a, n);
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < n; i++) TRUE(a[i] == i + 7);
    for (int i = 0; i < 64; i++) TRUE(table[i] == 2.0f * i);

    int value = -1;
    CHECK(cudaMemRangeGetAttribute(&value, sizeof value, cudaMemRangeAttributeReadMostly, a,
                                   n * sizeof(int)));
    TRUE(value == 1);
    CHECK(cudaMemRangeGetAttribute(&value, sizeof value, cudaMemRangeAttributePreferredLocation, a,
                                   4096));
    TRUE(value == cudaCpuDeviceId);
    CHECK(cudaMemRangeGetAttribute(&value, sizeof value, cudaMemRangeAttributePreferredLocation, a,
                                   8192));
    TRUE(value == cudaInvalidDeviceId);  // not the same for all of it
    CHECK(cudaMemRangeGetAttribute(&value, sizeof value, cudaMemRangeAttributeLastPrefetchLocation,
                                   a, n * sizeof(int)));
    TRUE(value == 0);
    CHECK(cudaMemAdvise(a, n * sizeof(int), cudaMemAdviseUnsetReadMostly,
                        cudaMemLocation{cudaMemLocationTypeDevice, 0}));
    CHECK(cudaMemRangeGetAttribute(&value, sizeof value, cudaMemRangeAttributeReadMostly, a,
                                   n * sizeof(int)));
    TRUE(value == 0);

    cudaPointerAttributes p;
    CHECK(cudaPointerGetAttributes(&p, a + 10));
    TRUE(p.type == cudaMemoryTypeManaged && p.devicePointer == a + 10 && p.hostPointer == a + 10);
    cudaStream_t s;
    CHECK(cudaStreamCreate(&s));
    CHECK(cudaStreamAttachMemAsync(s, a, 0, cudaMemAttachSingle));
    add<<<1, 32, 0, s>>>(a, 32);
    CHECK(cudaStreamSynchronize(s));
    TRUE(a[3] == 3 + 14);
    CHECK(cudaFree(a));
    FAILS(
        cudaMemPrefetchAsync(&value, 4, cudaMemLocation{cudaMemLocationTypeDevice, 0}, 0, nullptr),
        cudaErrorInvalidValue);
    return right();
}
