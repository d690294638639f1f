// SPDX-License-Identifier: Apache-2.0
// Graphs that copy the program's own memory and call its functions: the bytes at launch count, host
// nodes see what the copies before them left, and copies behind them see what they wrote; user
// objects end with their last graph.
#include "check.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

__global__ void twice(int *p, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) p[i] *= 2;
}

constexpr int N = 5000;
constexpr size_t kBytes = N * sizeof(int);
static int pageable_in[N], pageable_out[N], *in = pageable_in, *out = pageable_out;
static int *device;

static void fill(int *p, int what)
{
    for (int i = 0; i < N; i++) p[i] = what + i;
}
static bool is_twice(const int *p, int what)
{
    for (int i = 0; i < N; i++)
        if (p[i] != 2 * (what + i))
            return printf("[%d] is %d, not %d\n", i, p[i], 2 * (what + i)), false;
    return true;
}

static void captured_copies(bool pinned)
{
    int *from = in, *to = out;
    if (pinned) {
        CHECK(cudaMallocHost(&from, kBytes));
        CHECK(cudaMallocHost(&to, kBytes));
    }
    cudaStream_t s;
    CHECK(cudaStreamCreate(&s));
    fill(from, 1);
    CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    CHECK(cudaMemcpyAsync(device, from, kBytes, cudaMemcpyHostToDevice, s));
    twice<<<(N + 255) / 256, 256, 0, s>>>(device, N);
    CHECK(cudaMemcpyAsync(to, device, kBytes, cudaMemcpyDeviceToHost, s));
    cudaGraph_t g;
    CHECK(cudaStreamEndCapture(s, &g));
    size_t nodes = 0;
    CHECK(cudaGraphGetNodes(g, nullptr, &nodes));
    TRUE(nodes == 3);
    cudaGraphNode_t node[3];
    CHECK(cudaGraphGetNodes(g, node, &nodes));
    int host_sides = 0;
    for (cudaGraphNode_t n : node) {
        cudaGraphNodeType type;
        CHECK(cudaGraphNodeGetType(n, &type));
        if (type != cudaGraphNodeTypeMemcpy) continue;
        cudaMemcpy3DParms p{};
        CHECK(cudaGraphMemcpyNodeGetParams(n, &p));
        host_sides += p.srcPtr.ptr == from;
        host_sides += p.dstPtr.ptr == to;
    }
    TRUE(host_sides == 2);
    cudaGraphExec_t e;
    CHECK(cudaGraphInstantiate(&e, g, 0));
    CHECK(cudaGraphDestroy(g));
    for (int round = 10; round < 14; round++) {
        fill(from, round);  // what counts is what lies there at the launch
        memset(to, 0, kBytes);
        CHECK(cudaGraphLaunch(e, s));
        CHECK(cudaStreamSynchronize(s));
        TRUE(is_twice(to, round));
    }
    CHECK(cudaGraphExecDestroy(e));
    CHECK(cudaStreamDestroy(s));
    if (pinned) {
        CHECK(cudaFreeHost(from));
        CHECK(cudaFreeHost(to));
    }
}

// --- host nodes between copies

static std::atomic<int> calls;
static int seen;
static void look_and_write(void *)
{
    seen = out[0];
    out[1] = -7;   // after the copy that filled `out`: this must stay
    in[0] = 1000;  // before the copy that reads `in`
    calls++;
}

static void host_nodes()
{
    cudaGraph_t g;
    CHECK(cudaGraphCreate(&g, 0));
    cudaGraphNode_t n1, n2, n3, n4;
    CHECK(
        cudaGraphAddMemcpyNode1D(&n1, g, nullptr, 0, out, device, kBytes, cudaMemcpyDeviceToHost));
    cudaHostNodeParams host{look_and_write, nullptr};
    CHECK(cudaGraphAddHostNode(&n2, g, &n1, 1, &host));
    CHECK(cudaGraphAddMemcpyNode1D(&n3, g, &n2, 1, device, in, kBytes, cudaMemcpyHostToDevice));
    cudaKernelNodeParams k{};
    int n = N;
    void *args[] = {&device, &n};
    k.func = (void *)twice, k.gridDim = dim3((N + 255) / 256), k.blockDim = dim3(256),
    k.kernelParams = args;
    CHECK(cudaGraphAddKernelNode(&n4, g, &n3, 1, &k));
    cudaGraphExec_t e;
    CHECK(cudaGraphInstantiate(&e, g, 0));
    cudaStream_t s;
    CHECK(cudaStreamCreate(&s));
    for (int round = 1; round < 6; round++) {
        std::vector<int> start(N, round);
        CHECK(cudaMemcpy(device, start.data(), kBytes, cudaMemcpyHostToDevice));
        fill(in, round);
        seen = -1;
        CHECK(cudaGraphLaunch(e, s));
        CHECK(cudaStreamSynchronize(s));
        TRUE(calls == round && seen == round && out[0] == round && out[1] == -7 && out[2] == round);
        std::vector<int> end(N);
        CHECK(cudaMemcpy(end.data(), device, kBytes, cudaMemcpyDeviceToHost));
        TRUE(end[0] == 2000 && end[5] == 2 * (round + 5));
    }
    // Launches in a row: as many calls.
    for (int i = 0; i < 5; i++) CHECK(cudaGraphLaunch(e, s));
    CHECK(cudaStreamSynchronize(s));
    TRUE(calls == 10);
    // Destroyed while it runs: it runs to its end.
    CHECK(cudaGraphLaunch(e, s));
    CHECK(cudaGraphExecDestroy(e));
    CHECK(cudaStreamSynchronize(s));
    TRUE(calls == 11);
    CHECK(cudaGraphDestroy(g));
    CHECK(cudaStreamDestroy(s));
}

// --- changes of an executable graph

static void updates()
{
    static int other[N];
    cudaGraph_t g;
    CHECK(cudaGraphCreate(&g, 0));
    cudaGraphNode_t to_device, to_host;
    CHECK(cudaGraphAddMemcpyNode1D(&to_device, g, nullptr, 0, device, in, kBytes,
                                   cudaMemcpyHostToDevice));
    CHECK(cudaGraphAddMemcpyNode1D(&to_host, g, &to_device, 1, out, device, kBytes,
                                   cudaMemcpyDeviceToHost));
    cudaGraphExec_t e;
    CHECK(cudaGraphInstantiate(&e, g, 0));
    CHECK(cudaGraphExecMemcpyNodeSetParams1D(e, to_device, device, other, kBytes,
                                             cudaMemcpyHostToDevice));
    fill(in, 3), fill(other, 500);
    CHECK(cudaGraphLaunch(e, 0));
    CHECK(cudaDeviceSynchronize());
    TRUE(out[0] == 500 && out[N - 1] == 500 + N - 1);
    // The graph itself was not changed: an update from it brings `in` back.
    cudaGraphExecUpdateResultInfo info;
    CHECK(cudaGraphExecUpdate(e, g, &info));
    CHECK(cudaGraphLaunch(e, 0));
    CHECK(cudaDeviceSynchronize());
    TRUE(out[0] == 3 && out[N - 1] == 3 + N - 1);
    // Inside a child graph, and in a clone.
    cudaGraph_t outer, clone;
    cudaGraphNode_t child;
    CHECK(cudaGraphCreate(&outer, 0));
    CHECK(cudaGraphAddChildGraphNode(&child, outer, nullptr, 0, g));
    CHECK(cudaGraphClone(&clone, outer));
    cudaGraphExec_t e2;
    CHECK(cudaGraphInstantiate(&e2, clone, 0));
    CHECK(cudaGraphDestroy(outer));
    CHECK(cudaGraphDestroy(clone));
    CHECK(cudaGraphDestroy(g));
    fill(in, 77);
    CHECK(cudaGraphLaunch(e2, 0));
    CHECK(cudaDeviceSynchronize());
    TRUE(out[0] == 77);
    CHECK(cudaGraphExecDestroy(e));
    CHECK(cudaGraphExecDestroy(e2));
}

// --- 2D copies of rows that do not lie back to back

static void pitched()
{
    char *d;
    size_t pitch;
    CHECK(cudaMallocPitch(&d, &pitch, 100, 30));
    static char a[30][128], b[30][160];
    cudaStream_t s;
    CHECK(cudaStreamCreate(&s));
    CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    CHECK(cudaMemcpy2DAsync(d, pitch, a, sizeof a[0], 100, 30, cudaMemcpyHostToDevice, s));
    CHECK(cudaMemcpy2DAsync(b, sizeof b[0], d, pitch, 100, 30, cudaMemcpyDeviceToHost, s));
    cudaGraph_t g;
    CHECK(cudaStreamEndCapture(s, &g));
    cudaGraphExec_t e;
    CHECK(cudaGraphInstantiate(&e, g, 0));
    for (int y = 0; y < 30; y++)
        for (int x = 0; x < 128; x++) a[y][x] = (char)(x * 7 + y);
    memset(b, 99, sizeof b);
    CHECK(cudaGraphLaunch(e, s));
    CHECK(cudaStreamSynchronize(s));
    for (int y = 0; y < 30; y++)
        for (int x = 0; x < 160; x++) TRUE(b[y][x] == (x < 100 ? a[y][x] : 99));
    CHECK(cudaGraphExecDestroy(e));
    CHECK(cudaGraphDestroy(g));
    CHECK(cudaStreamDestroy(s));
    CHECK(cudaFree(d));
}

// --- user objects

static std::atomic<int> ended;
static void end(void *data) { ended += *static_cast<int *>(data); }

static bool becomes(int what)
{
    for (long i = 0; i < 200000 && ended != what; i++) std::this_thread::yield();
    return ended == what;
}

static void user_objects()
{
    int one = 1, ten = 10;
    cudaUserObject_t a, b;
    CHECK(cudaUserObjectCreate(&a, &one, end, 1, cudaUserObjectNoDestructorSync));
    CHECK(cudaUserObjectRetain(a, 1));
    CHECK(cudaUserObjectRelease(a, 1));
    TRUE(ended == 0);
    CHECK(cudaUserObjectRelease(a, 1));
    TRUE(becomes(1));
    CHECK(cudaUserObjectCreate(&b, &ten, end, 1, cudaUserObjectNoDestructorSync));
    cudaGraph_t g;
    CHECK(cudaGraphCreate(&g, 0));
    cudaGraphNode_t n;
    CHECK(cudaGraphAddEmptyNode(&n, g, nullptr, 0));
    CHECK(cudaGraphRetainUserObject(g, b, 1, cudaGraphUserObjectMove));
    cudaGraphExec_t e;
    CHECK(cudaGraphInstantiate(&e, g, 0));
    CHECK(cudaGraphDestroy(g));
    TRUE(ended == 1);
    CHECK(cudaGraphLaunch(e, 0));
    CHECK(cudaGraphExecDestroy(e));
    CHECK(cudaDeviceSynchronize());
    TRUE(becomes(11));

    // An event that was recorded in a graph's capture does not keep what the graph held.
    int hundred = 100;
    cudaStream_t s;
    cudaEvent_t recorded;
    CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&recorded, cudaEventDisableTiming));
    CHECK(cudaUserObjectCreate(&a, &hundred, end, 1, cudaUserObjectNoDestructorSync));
    CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    CHECK(cudaMemsetAsync(device, 0, kBytes, s));
    CHECK(cudaEventRecord(recorded, s));
    CHECK(cudaStreamEndCapture(s, &g));
    CHECK(cudaGraphRetainUserObject(g, a, 1, cudaGraphUserObjectMove));
    CHECK(cudaGraphDestroy(g));
    TRUE(becomes(111));
    CHECK(cudaEventDestroy(recorded));
    CHECK(cudaStreamDestroy(s));
}

int main()
{
    CHECK(cudaMalloc(&device, kBytes));
    captured_copies(false);
    captured_copies(true);
    // Pageable memory a driver may read when the graph is launched, before a host node writes it.
    CHECK(cudaMallocHost(&in, kBytes));
    CHECK(cudaMallocHost(&out, kBytes));
    host_nodes();
    updates();
    pitched();
    user_objects();
    CHECK(cudaFree(device));
    puts("ok");
}
