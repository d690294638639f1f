// SPDX-License-Identifier: Apache-2.0
// Memory that graphs allocate and free: by nodes, and as captured cudaMallocAsync and
// cudaFreeAsync.
#include "check.h"

__global__ void fill(int *p, int n, int v)
{
    for (int i = threadIdx.x; i < n; i += blockDim.x) p[i] = v;
}
__global__ void sum(const int *p, int n, int *out)
{
    int s = 0;
    for (int i = 0; i < n; i++) s += p[i];
    *out += s;
}

static uint64_t used()
{
    uint64_t bytes = 0;
    CHECK(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &bytes));
    return bytes;
}

// What counts, and in which units, is the driver's. The software GPU counts bytes.
static bool uses(uint64_t bytes) { return !on_softgpu() || used() == bytes; }

int main()
{
    int *out, got = 0, n = 1000, one = 1;
    CHECK(cudaMalloc(&out, 4));
    CHECK(cudaMemset(out, 0, 4));
    TRUE(used() == 0);

    // allocate, fill, sum, free
    cudaGraph_t g;
    cudaGraphNode_t alloc, kernel, reduce, free_it;
    CHECK(cudaGraphCreate(&g, 0));
    cudaMemAllocNodeParams a = {};
    a.poolProps.allocType = cudaMemAllocationTypePinned;
    a.poolProps.location = {cudaMemLocationTypeDevice, 0};
    a.bytesize = 4000;
    CHECK(cudaGraphAddMemAllocNode(&alloc, g, nullptr, 0, &a));
    TRUE(a.dptr && uses(4000));
    cudaKernelNodeParams k = {};
    void *fill_arguments[] = {&a.dptr, &n, &one}, *sum_arguments[] = {&a.dptr, &n, &out};
    k.func = (void *)fill;
    k.gridDim = k.blockDim = dim3(1);
    k.kernelParams = fill_arguments;
    CHECK(cudaGraphAddKernelNode(&kernel, g, &alloc, 1, &k));
    k.func = (void *)sum;
    k.kernelParams = sum_arguments;
    CHECK(cudaGraphAddKernelNode(&reduce, g, &kernel, 1, &k));
    CHECK(cudaGraphAddMemFreeNode(&free_it, g, &reduce, 1, a.dptr));
    cudaGraphNodeType type;
    CHECK(cudaGraphNodeGetType(free_it, &type));
    TRUE(type == cudaGraphNodeTypeMemFree);
    cudaGraphExec_t e;
    CHECK(cudaGraphInstantiate(&e, g, 0));
    for (int i = 0; i < 5; i++) CHECK(cudaGraphLaunch(e, nullptr));
    CHECK(cudaMemcpy(&got, out, 4, cudaMemcpyDeviceToHost));
    TRUE(got == 5000);
    CHECK(cudaGraphExecDestroy(e));
    CHECK(cudaGraphDestroy(g));
    CHECK(cudaDeviceSynchronize());
    TRUE(uses(0));

    // Captured, and left allocated: the program frees it before the next launch.
    cudaStream_t s;
    CHECK(cudaStreamCreate(&s));
    int *p, *q;
    CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    CHECK(cudaMallocAsync(&p, 4000, s));
    CHECK(cudaMallocAsync(&q, 400, s));
    fill<<<1, 32, 0, s>>>(p, n, 3);
    fill<<<1, 32, 0, s>>>(q, 100, 1);
    CHECK(cudaFreeAsync(q, s));
    CHECK(cudaStreamEndCapture(s, &g));
    CHECK(cudaGraphInstantiate(&e, g, 0));
    CHECK(cudaMemset(out, 0, 4));
    for (int i = 0; i < 3; i++) {
        CHECK(cudaGraphLaunch(e, s));
        FAILS(cudaGraphLaunch(e, s), cudaErrorInvalidValue);
        sum<<<1, 1, 0, s>>>(p, n, out);
        CHECK(cudaFreeAsync(p, s));
    }
    CHECK(cudaStreamSynchronize(s));
    CHECK(cudaMemcpy(&got, out, 4, cudaMemcpyDeviceToHost));
    TRUE(got == 9000);
    FAILS(cudaFree(p), cudaErrorInvalidValue);  // not allocated now
    CHECK(cudaGraphExecDestroy(e));

    // A launch may free what the one before left.
    CHECK(cudaGraphInstantiate(&e, g, cudaGraphInstantiateFlagAutoFreeOnLaunch));
    CHECK(cudaGraphLaunch(e, s));
    CHECK(cudaGraphLaunch(e, s));
    CHECK(cudaGraphExecDestroy(e));
    CHECK(cudaGraphDestroy(g));
    // It outlives its graph while it is allocated.
    sum<<<1, 1, 0, s>>>(p, n, out);
    CHECK(cudaStreamSynchronize(s));
    TRUE(uses(4000));
    CHECK(cudaFree(p));
    TRUE(uses(0));
    return right();
}
