// SPDX-License-Identifier: Apache-2.0
// Stream-ordered allocation: the default pool, a pool of one's own, attributes, what is given back
// when.
#include "check.h"

__global__ void fill(int *p, int n, int v)
{
    for (int i = threadIdx.x; i < n; i += blockDim.x) p[i] = v + i;
}
__global__ void sum(const int *p, int n, int *out)
{
    int s = 0;
    for (int i = 0; i < n; i++) s += p[i];
    *out = s;
}

int main()
{
    cudaStream_t s;
    CHECK(cudaStreamCreate(&s));
    int *result, got = 0;
    CHECK(cudaMalloc(&result, 4));
    for (int round = 0; round < 50; round++) {
        int *p;
        CHECK(cudaMallocAsync(&p, 1000 * 4, s));
        fill<<<1, 64, 0, s>>>(p, 1000, round);
        sum<<<1, 1, 0, s>>>(p, 1000, result);
        CHECK(cudaFreeAsync(p, s));
        CHECK(cudaMemcpyAsync(&got, result, 4, cudaMemcpyDeviceToHost, s));
        CHECK(cudaStreamSynchronize(s));
        TRUE(got == 499500 + 1000 * round);
    }
    cudaMemPool_t pool, mine;
    CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
    uint64_t used = 1, high = 0;
    CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
    CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &high));
    TRUE(used == 0 && high >= 4000);

    cudaMemPoolProps props = {};
    props.allocType = cudaMemAllocationTypePinned;
    props.location = {cudaMemLocationTypeDevice, 0};
    CHECK(cudaMemPoolCreate(&mine, &props));
    uint64_t keep = 1 << 20;
    CHECK(cudaMemPoolSetAttribute(mine, cudaMemPoolAttrReleaseThreshold, &keep));
    int *a, *b;
    CHECK(cudaMallocFromPoolAsync(&a, 1 << 21, mine, s));
    CHECK(cudaDeviceSetMemPool(0, mine));
    CHECK(cudaMallocAsync(&b, 1 << 21, s));
    CHECK(cudaMemPoolGetAttribute(mine, cudaMemPoolAttrUsedMemCurrent, &used));
    TRUE(used == 2u << 21);
    CHECK(cudaMemsetAsync(a, 1, 1 << 21, s));
    CHECK(cudaMemcpyAsync(b, a, 1 << 21, cudaMemcpyDeviceToDevice, s));
    CHECK(cudaFreeAsync(a, s));
    CHECK(cudaFree(b));  // an ordinary free will do
    CHECK(cudaStreamSynchronize(s));
    CHECK(cudaMemPoolTrimTo(mine, 0));
    CHECK(cudaMemPoolGetAttribute(mine, cudaMemPoolAttrUsedMemCurrent, &used));
    // NVIDIA's driver still counts what was freed without a stream.
    TRUE(used == 0 || (!on_softgpu() && used <= 2u << 21));
    CHECK(cudaMemPoolDestroy(mine));
    FAILS(cudaFreeAsync((char *)result + 1, s), cudaErrorInvalidValue);
    int *huge;
    FAILS(cudaMallocAsync(&huge, size_t{1} << 50, s), cudaErrorMemoryAllocation);
    return right();
}
