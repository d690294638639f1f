// SPDX-License-Identifier: Apache-2.0
// What a program ends, changes or frees while work that uses it is still to come: a texture behind
// its launch, a kernel node's arguments that were handed out, memory of a graph between launches.
#include "check.h"

#include <atomic>

static std::atomic<bool> open_gate;
static void wait_at_gate(void *)
{
    while (!open_gate) {}
}

__global__ void read(cudaTextureObject_t t, int *out) { out[0] = tex1Dfetch<int>(t, 3); }
__global__ void add(int *p, int v) { *p += v; }

static void texture()
{
    int *data, *out, got = 0;
    const int host[8] = {0, 1, 2, 33};
    CHECK(cudaMalloc(&data, sizeof host));
    CHECK(cudaMalloc(&out, 4));
    CHECK(cudaMemcpy(data, host, sizeof host, cudaMemcpyHostToDevice));
    cudaResourceDesc r{};
    r.resType = cudaResourceTypeLinear;
    r.res.linear.devPtr = data;
    r.res.linear.desc = cudaCreateChannelDesc<int>();
    r.res.linear.sizeInBytes = sizeof host;
    cudaTextureDesc d{};
    cudaTextureObject_t t;
    CHECK(cudaCreateTextureObject(&t, &r, &d, nullptr));
    cudaStream_t s;
    CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    // Loaded ahead: a driver may load a kernel when it is first used, and wait for all work then.
    read<<<1, 1, 0, s>>>(t, out);
    CHECK(cudaMemsetAsync(out, 0, 4, s));
    CHECK(cudaLaunchHostFunc(s, wait_at_gate, nullptr));
    read<<<1, 1, 0, s>>>(t, out);
    CHECK(cudaDestroyTextureObject(t));
    cudaResourceDesc same;
    FAILS(cudaGetTextureObjectResourceDesc(&same, t), cudaErrorInvalidValue);
    open_gate = true;
    CHECK(cudaStreamSynchronize(s));
    CHECK(cudaMemcpy(&got, out, 4, cudaMemcpyDeviceToHost));
    EXPECT(got == 33, "%d", got);
    CHECK(cudaStreamDestroy(s));
    CHECK(cudaFree(data));
    CHECK(cudaFree(out));
}

static void arguments()
{
    int *p, got = 0, one = 1, ten = 10;
    CHECK(cudaMalloc(&p, 4));
    CHECK(cudaMemset(p, 0, 4));
    cudaGraph_t g;
    cudaGraphNode_t node;
    CHECK(cudaGraphCreate(&g, 0));
    cudaKernelNodeParams k{};
    void *first[] = {&p, &one}, *second[] = {&p, &ten};
    k.func = (void *)add;
    k.gridDim = k.blockDim = dim3(1);
    k.kernelParams = first;
    CHECK(cudaGraphAddKernelNode(&node, g, nullptr, 0, &k));
    cudaKernelNodeParams shown{};
    CHECK(cudaGraphKernelNodeGetParams(node, &shown));
    k.kernelParams = second;
    for (int i = 0; i < 100; i++) CHECK(cudaGraphKernelNodeSetParams(node, &k));
    // The arrays of before are the node's until its parameters change (cuGraphKernelNodeGetParams).
    // With rgpu they stay, and say what they said.
    if (by_rgpu()) {
        TRUE(*static_cast<int *>(shown.kernelParams[1]) == 1);
        TRUE(*static_cast<int **>(shown.kernelParams[0]) == p);
    } else {
        shown.kernelParams = first;
    }
    CHECK(cudaGraphKernelNodeSetParams(node, &shown));
    cudaGraphExec_t e;
    CHECK(cudaGraphInstantiate(&e, g, 0));
    CHECK(cudaGraphLaunch(e, nullptr));
    CHECK(cudaMemcpy(&got, p, 4, cudaMemcpyDeviceToHost));
    EXPECT(got == 1, "%d", got);
    CHECK(cudaGraphExecDestroy(e));
    CHECK(cudaGraphDestroy(g));
    CHECK(cudaFree(p));
}

static void graph_memory(bool captured)
{
    cudaStream_t s;
    CHECK(cudaStreamCreate(&s));
    cudaGraph_t g;
    int *p = nullptr, got = 0;
    if (captured) {
        CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
        CHECK(cudaMallocAsync(&p, 4000, s));
        CHECK(cudaMemsetAsync(p, 0, 4, s));
        add<<<1, 1, 0, s>>>(p, 7);
        CHECK(cudaStreamEndCapture(s, &g));
    } else {
        cudaGraphNode_t alloc, clear, kernel;
        cudaMemAllocNodeParams a{};
        a.poolProps.allocType = cudaMemAllocationTypePinned;
        a.poolProps.location = {cudaMemLocationTypeDevice, 0};
        a.bytesize = 4000;
        CHECK(cudaGraphCreate(&g, 0));
        CHECK(cudaGraphAddMemAllocNode(&alloc, g, nullptr, 0, &a));
        p = static_cast<int *>(a.dptr);
        cudaMemsetParams m{};
        m.dst = p;
        m.elementSize = m.width = 4;
        m.width = m.height = 1;
        CHECK(cudaGraphAddMemsetNode(&clear, g, &alloc, 1, &m));
        int seven = 7;
        void *arguments[] = {&p, &seven};
        cudaKernelNodeParams k{};
        k.func = (void *)add;
        k.gridDim = k.blockDim = dim3(1);
        k.kernelParams = arguments;
        CHECK(cudaGraphAddKernelNode(&kernel, g, &clear, 1, &k));
    }
    cudaGraphExec_t e;
    CHECK(cudaGraphInstantiate(&e, g, 0));
    for (int i = 0; i < 4; i++) {
        CHECK(cudaGraphLaunch(e, s));
        CHECK(cudaMemcpyAsync(&got, p, 4, cudaMemcpyDeviceToHost, s));
        CHECK(cudaStreamSynchronize(s));
        EXPECT(got == 7, "launch %d: %d", i, got);
        got = 0;
        i % 2 ? CHECK(cudaFreeAsync(p, s)) : CHECK(cudaFree(p));
        CHECK(cudaStreamSynchronize(s));
    }
    CHECK(cudaGraphExecDestroy(e));
    CHECK(cudaGraphDestroy(g));
    CHECK(cudaStreamDestroy(s));
    // Its addresses are free for others.
    int *other;
    CHECK(cudaMalloc(&other, 1 << 20));
    CHECK(cudaMemset(other, 1, 1 << 20));
    CHECK(cudaFree(other));
}

int main()
{
    texture();
    arguments();
    graph_memory(false);
    graph_memory(true);
    return right();
}
