// SPDX-License-Identifier: Apache-2.0
// The runtime's ways around streams: forks and joins, captured and not, host functions between,
// per-thread streams from threads, launch attributes, batches of copies, libraries, resets.
#include "check.h"
#include <atomic>
#include <cstdint>
#include <thread>

__global__ void fill(int *p, int n, int v)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        p[i] = v;
}
__global__ void add(int *p, const int *q, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        p[i] += q[i];
}
__global__ void scale(int *p, int n, int by)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        p[i] *= by;
}
__constant__ int factor;
__device__ int counter[4] = {1, 2, 3, 4};
__managed__ int shared_count = 5;
__global__ void use_symbols(int *out)
{
    out[0] = factor + counter[2] + shared_count;
    shared_count++;
}

static bool all(const int *host, int n, int v)
{
    for (int i = 0; i < n; i++)
        if (host[i] != v) return printf("at %d: %d, not %d\n", i, host[i], v), false;
    return true;
}

int main()
{
    constexpr int n = 100000;
    int *a, *b, *c, *host;
    CHECK(cudaMalloc(&a, n * 4));
    CHECK(cudaMalloc(&b, n * 4));
    CHECK(cudaMalloc(&c, n * 4));
    CHECK(cudaMallocHost(&host, n * 4));
    cudaStream_t s[3];
    int least, greatest;
    CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    CHECK(cudaStreamCreate(&s[0]));
    CHECK(cudaStreamCreateWithFlags(&s[1], cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithPriority(&s[2], cudaStreamNonBlocking, greatest));
    cudaEvent_t e[3];
    for (auto &x : e) CHECK(cudaEventCreateWithFlags(&x, cudaEventDisableTiming));

    // A fork and a join, run as it stands, then captured and launched three times, then updated.
    std::atomic<int> calls{0};
    auto work = [&](int first, int second) {
        fill<<<32, 128, 0, s[0]>>>(a, n, first);
        CHECK(cudaEventRecord(e[0], s[0]));
        CHECK(cudaStreamWaitEvent(s[1], e[0]));
        CHECK(cudaStreamWaitEvent(s[2], e[0]));
        fill<<<7, 33, 0, s[1]>>>(b, n, second);
        CHECK(cudaMemcpyAsync(c, a, n * 4, cudaMemcpyDeviceToDevice, s[2]));
        CHECK(cudaLaunchHostFunc(
            s[2], [](void *p) { ++*static_cast<std::atomic<int> *>(p); }, &calls));
        scale<<<8, 256, 0, s[2]>>>(c, n, 10);
        CHECK(cudaEventRecord(e[1], s[1]));
        CHECK(cudaEventRecord(e[2], s[2]));
        CHECK(cudaStreamWaitEvent(s[0], e[1]));
        CHECK(cudaStreamWaitEvent(s[0], e[2]));
        add<<<16, 64, 0, s[0]>>>(b, c, n);
        CHECK(cudaMemcpyAsync(host, b, n * 4, cudaMemcpyDeviceToHost, s[0]));
    };
    work(3, 4);
    CHECK(cudaStreamSynchronize(s[0]));
    TRUE(all(host, n, 34) && calls == 1);
    cudaGraph_t graph, other;
    cudaGraphExec_t exec;
    auto capture = [&](cudaGraph_t &g, int x, int y) {
        CHECK(cudaStreamBeginCapture(s[0], cudaStreamCaptureModeThreadLocal));
        work(x, y);
        CHECK(cudaStreamEndCapture(s[0], &g));
    };
    capture(graph, 5, 6);
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 3; i++) CHECK(cudaGraphLaunch(exec, s[1]));
    CHECK(cudaStreamSynchronize(s[1]));
    TRUE(all(host, n, 56) && calls == 4);
    capture(other, 1, 2);
    cudaGraphExecUpdateResultInfo info;
    CHECK(cudaGraphExecUpdate(exec, other, &info));
    CHECK(cudaGraphLaunch(exec, s[1]));
    CHECK(cudaStreamSynchronize(s[1]));
    TRUE(all(host, n, 12) && calls == 5);
    size_t nodes = 0, edges = 0;
    CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
    CHECK(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &edges));
    TRUE(nodes == 7 && edges >= 7);
    cudaGraph_t clone;
    CHECK(cudaGraphClone(&clone, graph));
    CHECK(cudaGraphDebugDotPrint(graph, "/dev/null", 0));
    CHECK(cudaGraphExecDestroy(exec));
    for (auto g : {graph, other, clone}) CHECK(cudaGraphDestroy(g));

    // Stream callbacks get the status, in order.
    std::vector<int> order;
    for (int i = 0; i < 5; i++) {
        struct Note {
            std::vector<int> *order;
            int i;
        };
        CHECK(cudaStreamAddCallback(
            s[1],
            [](cudaStream_t, cudaError_t rc, void *p) {
                auto *note = static_cast<Note *>(p);
                if (!rc) note->order->push_back(note->i);
                delete note;
            },
            new Note{&order, i}, 0));
    }
    CHECK(cudaStreamSynchronize(s[1]));
    TRUE((order == std::vector<int>{0, 1, 2, 3, 4}));

    // Eight threads, each with its own default stream and device memory of its own.
    std::vector<std::thread> threads;
    std::atomic<int> good{0};
    for (int t = 0; t < 8; t++)
        threads.emplace_back([&, t] {
            int *p, out[256];
            if (cudaMallocAsync(&p, 1024, cudaStreamPerThread)) return;
            for (int i = 0; i < 20; i++) {
                fill<<<1, 64, 0, cudaStreamPerThread>>>(p, 256, t * 100 + i);
                cudaMemcpyAsync(out, p, 1024, cudaMemcpyDeviceToHost, cudaStreamPerThread);
                if (cudaStreamSynchronize(cudaStreamPerThread) || !all(out, 256, t * 100 + i))
                    return;
            }
            if (!cudaFreeAsync(p, cudaStreamPerThread)) good++;
        });
    for (auto &t : threads) t.join();
    TRUE(good == 8);

    // Launch attributes.
    cudaLaunchAttribute attributes[3] = {};
    attributes[0].id = cudaLaunchAttributePriority;
    attributes[0].val.priority = greatest;
    attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[1].val.programmaticStreamSerializationAllowed = 1;
    attributes[2].id = cudaLaunchAttributeCooperative;
    attributes[2].val.cooperative = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = 2, config.blockDim = 64, config.stream = s[0], config.attrs = attributes,
    config.numAttrs = 3;
    CHECK(cudaLaunchKernelEx(&config, fill, a, n, 77));
    CHECK(cudaMemcpyAsync(host, a, n * 4, cudaMemcpyDefault, s[0]));
    CHECK(cudaStreamSynchronize(s[0]));
    TRUE(all(host, n, 77));

    // Symbols, with offsets and streams.
    const int f = 1000, two[2] = {30, 40};
    CHECK(cudaMemcpyToSymbolAsync(factor, &f, 4, 0, cudaMemcpyHostToDevice, s[0]));
    CHECK(cudaMemcpyToSymbolAsync(counter, two, 8, 8, cudaMemcpyHostToDevice, s[0]));
    use_symbols<<<1, 1, 0, s[0]>>>(a);
    CHECK(cudaStreamSynchronize(s[0]));
    int sum;
    CHECK(cudaMemcpy(&sum, a, 4, cudaMemcpyDefault));
    TRUE(sum == 1000 + 30 + 5 && shared_count == 6);
    void *address;
    size_t bytes;
    CHECK(cudaGetSymbolAddress(&address, counter));
    CHECK(cudaGetSymbolSize(&bytes, counter));
    TRUE(bytes == 16);
    CHECK(cudaMemcpy(&sum, static_cast<int *>(address) + 3, 4, cudaMemcpyDefault));
    TRUE(sum == 40);

    // Shapes: pitched, three-dimensional, between the two.
    char *pitched;
    size_t pitch;
    CHECK(cudaMallocPitch(&pitched, &pitch, 100, 50));
    CHECK(cudaMemset2D(pitched, pitch, 7, 100, 50));
    CHECK(cudaMemset2DAsync(pitched + 10, pitch, 9, 20, 30, s[0]));
    CHECK(cudaStreamSynchronize(s[0]));
    std::vector<char> flat(5000);
    CHECK(cudaMemcpy2D(flat.data(), 100, pitched, pitch, 100, 50, cudaMemcpyDeviceToHost));
    for (int y = 0; y < 50; y++)
        for (int x = 0; x < 100; x++)
            TRUE(flat[y * 100 + x] == (y < 30 && x >= 10 && x < 30 ? 9 : 7));
    cudaPitchedPtr box;
    const cudaExtent extent = make_cudaExtent(40, 6, 5);
    CHECK(cudaMalloc3D(&box, extent));
    CHECK(cudaMemset3D(box, 3, extent));
    cudaMemcpy3DParms parms = {};
    parms.srcPtr = box, parms.dstPtr = make_cudaPitchedPtr(flat.data(), 40, 40, 6),
    parms.extent = make_cudaExtent(20, 6, 5);
    parms.srcPos = make_cudaPos(10, 0, 0), parms.dstPos = make_cudaPos(4, 0, 0),
    parms.kind = cudaMemcpyDeviceToHost;
    std::fill(flat.begin(), flat.end(), 0);
    CHECK(cudaMemcpy3D(&parms));
    for (int i = 0; i < 1200; i++) TRUE(flat[i] == (i % 40 >= 4 && i % 40 < 24 ? 3 : 0));

    // What pointers are.
    cudaPointerAttributes p;
    CHECK(cudaPointerGetAttributes(&p, a + 5));
    TRUE(p.type == cudaMemoryTypeDevice && p.device == 0);
    CHECK(cudaPointerGetAttributes(&p, host));
    TRUE(p.type == cudaMemoryTypeHost && p.hostPointer == host);
    CHECK(cudaPointerGetAttributes(&p, &shared_count));
    TRUE(p.type == cudaMemoryTypeManaged);
    CHECK(cudaPointerGetAttributes(&p, &least));
    TRUE(p.type == cudaMemoryTypeUnregistered);

    // Registered memory, mapped.
    std::vector<int> own(5000, 3);
    CHECK(cudaHostRegister(own.data(), own.size() * 4, cudaHostRegisterMapped));
    int *seen;
    CHECK(cudaHostGetDevicePointer(&seen, own.data(), 0));
    scale<<<4, 64>>>(seen, 5000, 5);
    CHECK(cudaDeviceSynchronize());
    TRUE(all(own.data(), 5000, 15));
    CHECK(cudaHostUnregister(own.data()));
    FAILS(cudaHostUnregister(own.data()), cudaErrorHostMemoryNotRegistered);
    cudaGetLastError();

    // Limits and flags.
    size_t limit;
    CHECK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 32 << 20));
    CHECK(cudaDeviceGetLimit(&limit, cudaLimitMallocHeapSize));
    TRUE(limit >= 32 << 20);
    CHECK(cudaDeviceSetLimit(cudaLimitStackSize, 8192));
    CHECK(cudaDeviceGetLimit(&limit, cudaLimitStackSize));
    TRUE(limit >= 8192);

    // Errors are told once, and sticky ones are not made by mistakes in calls.
    fill<<<0, 32>>>(a, n, 0);
    TRUE(cudaPeekAtLastError() != cudaSuccess);
    TRUE(cudaGetLastError() != cudaSuccess);
    CHECK(cudaGetLastError());
    FAILS(cudaMemcpy(a, host, ~size_t{0} >> 1, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    if (by_rgpu())
        FAILS(cudaStreamQuery(reinterpret_cast<cudaStream_t>(0x1234567)),
              cudaErrorInvalidResourceHandle);
    cudaGetLastError();
    void *huge;
    FAILS(cudaMalloc(&huge, size_t{1} << 50), cudaErrorMemoryAllocation);
    cudaGetLastError();

    // After a reset everything can begin again.
    CHECK(cudaDeviceReset());
    CHECK(cudaMalloc(&a, n * 4));
    fill<<<32, 64>>>(a, n, 9);
    std::vector<int> back(n);
    CHECK(cudaMemcpy(back.data(), a, n * 4, cudaMemcpyDeviceToHost));
    TRUE(all(back.data(), n, 9));
    return right();
}
