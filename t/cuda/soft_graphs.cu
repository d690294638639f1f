// SPDX-License-Identifier: Apache-2.0
// CUDA graphs: made by hand and by stream capture, launched, changed; what may not be captured.
#include "check.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

__global__ void add(int *p, int n, int what)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) p[i] += what;
}
__global__ void twice(int *p, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) p[i] *= 2;
}
__global__ void sum(const int *a, const int *b, int *to, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) to[i] = a[i] + b[i];
}

constexpr int N = 1000;
constexpr size_t kBytes = N * sizeof(int);

struct Ints {
    int *p;
    Ints()
    {
        CHECK(cudaMalloc(&p, kBytes));
        CHECK(cudaMemset(p, 0, kBytes));
        CHECK(cudaDeviceSynchronize());
    }
    ~Ints() { CHECK(cudaFree(p)); }
    std::vector<int> host() const
    {
        std::vector<int> v(N);
        CHECK(cudaMemcpy(v.data(), p, kBytes, cudaMemcpyDeviceToHost));
        return v;
    }
    bool all(int x) const
    {
        for (int y : host())
            if (y != x) return printf("%d is not %d\n", y, x), false;
        return true;
    }
};

struct Stream {
    cudaStream_t s;
    explicit Stream(unsigned flags = cudaStreamDefault)
    {
        CHECK(cudaStreamCreateWithFlags(&s, flags));
    }
    ~Stream() { CHECK(cudaStreamDestroy(s)); }
    operator cudaStream_t() const { return s; }
};

static cudaKernelNodeParams add_params(void **arguments)
{
    cudaKernelNodeParams p{};
    p.func = (void *)add;
    p.gridDim = dim3((N + 255) / 256);
    p.blockDim = dim3(256);
    p.kernelParams = arguments;
    return p;
}

static std::atomic<int> count, gate;
static void count_one(void *) { count++; }
static void count_ten(void *) { count += 10; }
static void wait_at_gate(void *)
{
    while (!gate) std::this_thread::yield();
}

// --- by hand

static void a_graph_made_by_hand_runs_again_and_again()
{
    Ints data;
    std::vector<int> result(N);
    cudaGraph_t graph;
    CHECK(cudaGraphCreate(&graph, 0));
    cudaMemsetParams fill{data.p, 1, sizeof(int), 0, N, 1};
    fill.dst = data.p;
    fill.value = 0;
    fill.elementSize = 4;
    fill.width = N;
    fill.height = 1;
    fill.pitch = 0;
    cudaGraphNode_t set, kernel, copy, host;
    CHECK(cudaGraphAddMemsetNode(&set, graph, nullptr, 0, &fill));
    int n = N, what = 5;
    void *arguments[] = {&data.p, &n, &what};
    cudaKernelNodeParams params = add_params(arguments);
    CHECK(cudaGraphAddKernelNode(&kernel, graph, &set, 1, &params));
    what = 100;  // the node has its own by now
    CHECK(cudaGraphAddMemcpyNode1D(&copy, graph, &kernel, 1, result.data(), data.p, kBytes,
                                   cudaMemcpyDeviceToHost));
    cudaHostNodeParams call{count_one, nullptr};
    CHECK(cudaGraphAddHostNode(&host, graph, &copy, 1, &call));

    size_t many = 0;
    CHECK(cudaGraphGetNodes(graph, nullptr, &many));
    TRUE(many == 4);
    cudaGraphNode_t nodes[6];
    many = 6;
    CHECK(cudaGraphGetNodes(graph, nodes, &many));
    TRUE(many == 4 && nodes[0] == set && nodes[3] == host && !nodes[5]);
    many = 6;
    CHECK(cudaGraphGetRootNodes(graph, nodes, &many));
    TRUE(many == 1 && nodes[0] == set);
    cudaGraphNodeType type;
    CHECK(cudaGraphNodeGetType(copy, &type));
    TRUE(type == cudaGraphNodeTypeMemcpy);
    cudaKernelNodeParams read{};
    CHECK(cudaGraphKernelNodeGetParams(kernel, &read));
    TRUE(read.gridDim.x == params.gridDim.x && *(int *)read.kernelParams[2] == 5);
    TRUE(read.func == params.func);

    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    Stream s;
    count = 0;
    for (int i = 1; i <= 3; i++) {
        result.assign(N, -1);
        CHECK(cudaGraphLaunch(exec, s));
        CHECK(cudaStreamSynchronize(s));
        for (int x : result) TRUE(x == 5);
        TRUE(count == i);
    }
    // Launches in different streams do not overtake each other; nor does what follows in the
    // stream.
    Stream t;
    for (int i = 0; i < 20; i++) CHECK(cudaGraphLaunch(exec, i % 2 ? s : t));
    CHECK(cudaLaunchHostFunc(t, count_ten, nullptr));
    CHECK(cudaDeviceSynchronize());
    TRUE(count == 33);

    // A changed executable: parameters, the host function, a node that is switched off.
    what = 7;
    CHECK(cudaGraphExecKernelNodeSetParams(exec, kernel, &params));
    call.fn = count_ten;
    CHECK(cudaGraphExecHostNodeSetParams(exec, host, &call));
    CHECK(cudaGraphLaunch(exec, s));
    CHECK(cudaStreamSynchronize(s));
    TRUE(result[0] == 7 && result[N - 1] == 7 && count == 43);
    CHECK(cudaGraphNodeSetEnabled(exec, kernel, 0));
    unsigned on = 1;
    CHECK(cudaGraphNodeGetEnabled(exec, kernel, &on));
    TRUE(on == 0);
    CHECK(cudaGraphLaunch(exec, s));
    CHECK(cudaStreamSynchronize(s));
    TRUE(result[0] == 0);
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaGraphLaunch(exec, s));
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaStreamSynchronize(s));
    TRUE(count == 63);
}

static void edges_can_be_added_and_removed()
{
    cudaGraph_t graph;
    CHECK(cudaGraphCreate(&graph, 0));
    cudaGraphNode_t a, b, c;
    CHECK(cudaGraphAddEmptyNode(&a, graph, nullptr, 0));
    CHECK(cudaGraphAddEmptyNode(&b, graph, nullptr, 0));
    CHECK(cudaGraphAddEmptyNode(&c, graph, nullptr, 0));
    cudaGraphNode_t from[] = {a, b}, to[] = {b, c};
    CHECK(cudaGraphAddDependencies(graph, from, to, nullptr, 2));
    FAILS(cudaGraphAddDependencies(graph, from, to, nullptr, 1), cudaErrorInvalidValue);
    cudaGraphNode_t seen_from[4], seen_to[4];
    size_t many = 4;
    CHECK(cudaGraphGetEdges(graph, seen_from, seen_to, nullptr, &many));
    TRUE(many == 2 && seen_from[0] == a && seen_to[0] == b && seen_from[1] == b && seen_to[1] == c);
    many = 0;
    CHECK(cudaGraphNodeGetDependencies(c, nullptr, nullptr, &many));
    TRUE(many == 1);
    many = 4;
    CHECK(cudaGraphNodeGetDependentNodes(a, seen_to, nullptr, &many));
    TRUE(many == 1 && seen_to[0] == b);
    // A cycle shows when the graph is to be made executable, if not before.
    cudaGraphExec_t exec;
    const cudaError_t cycle = cudaGraphAddDependencies(graph, &c, &a, nullptr, 1);
    if (!cycle) {
        FAILS(cudaGraphInstantiate(&exec, graph, 0), cudaErrorInvalidValue);
        CHECK(cudaGraphRemoveDependencies(graph, &c, &a, nullptr, 1));
    } else {
        TRUE(cycle == cudaErrorInvalidValue && !on_softgpu());
    }
    FAILS(cudaGraphRemoveDependencies(graph, &c, &a, nullptr, 1), cudaErrorInvalidValue);
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroyNode(b));
    many = 0;
    CHECK(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &many));
    TRUE(many == 0);
    CHECK(cudaGraphDestroy(graph));
}

static void independent_nodes_do_not_wait_for_each_other()
{
    Ints data;
    cudaEvent_t added;
    CHECK(cudaEventCreateWithFlags(&added, cudaEventDisableTiming));
    cudaGraph_t graph;
    CHECK(cudaGraphCreate(&graph, 0));
    cudaGraphNode_t waits, adds, tells;
    int n = N, what = 3;
    void *arguments[] = {&data.p, &n, &what};
    cudaKernelNodeParams params = add_params(arguments);
    cudaHostNodeParams wait{wait_at_gate, nullptr};
    // Not two host nodes: a driver may call host functions one after the other.
    CHECK(cudaGraphAddHostNode(&waits, graph, nullptr, 0, &wait));
    CHECK(cudaGraphAddKernelNode(&adds, graph, nullptr, 0, &params));
    CHECK(cudaGraphAddEventRecordNode(&tells, graph, &adds, 1, added));
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    gate = 0;
    CHECK(cudaGraphLaunch(exec, 0));
    CHECK(cudaEventSynchronize(added));
    FAILS(cudaStreamQuery(0), cudaErrorNotReady);
    gate = 1;
    CHECK(cudaDeviceSynchronize());
    TRUE(data.all(3));
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaEventDestroy(added));
}

static void graphs_hold_graphs_and_clones_are_their_own()
{
    Ints data;
    int n = N, what = 1;
    void *arguments[] = {&data.p, &n, &what};
    cudaKernelNodeParams params = add_params(arguments);
    cudaGraph_t inner, outer, copy;
    cudaGraphNode_t one, child, after;
    CHECK(cudaGraphCreate(&inner, 0));
    CHECK(cudaGraphAddKernelNode(&one, inner, nullptr, 0, &params));
    CHECK(cudaGraphCreate(&outer, 0));
    CHECK(cudaGraphAddChildGraphNode(&child, outer, nullptr, 0, inner));
    params.func = (void *)twice;
    CHECK(cudaGraphAddKernelNode(&after, outer, &child, 1, &params));
    CHECK(cudaGraphClone(&copy, outer));
    cudaGraphNode_t in_copy;
    CHECK(cudaGraphNodeFindInClone(&in_copy, after, copy));
    TRUE(in_copy != after);
    what = 50;
    params.func = (void *)add;
    CHECK(cudaGraphKernelNodeSetParams(in_copy, &params));
    cudaGraphExec_t exec, exec_of_copy;
    CHECK(cudaGraphInstantiate(&exec, outer, 0));
    CHECK(cudaGraphInstantiate(&exec_of_copy, copy, 0));
    CHECK(cudaGraphLaunch(exec, 0));
    TRUE(data.all(2));
    CHECK(cudaGraphLaunch(exec_of_copy, 0));
    TRUE(data.all(53));
    // Another graph of the same shape in the child's place.
    what = -3;
    CHECK(cudaGraphKernelNodeSetParams(one, &params));
    CHECK(cudaGraphExecChildGraphNodeSetParams(exec, child, inner));
    CHECK(cudaGraphLaunch(exec, 0));
    TRUE(data.all(100));
    cudaGraph_t owned;
    CHECK(cudaGraphChildGraphNodeGetGraph(child, &owned));
    TRUE(owned != inner);
    if (on_softgpu()) FAILS(cudaGraphDestroy(owned), cudaErrorInvalidValue);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphExecDestroy(exec_of_copy));
    for (cudaGraph_t g : {inner, outer, copy}) CHECK(cudaGraphDestroy(g));
    if (by_rgpu()) FAILS(cudaGraphDestroy(inner), cudaErrorInvalidValue);
}

static void events_in_graphs_order_it_with_streams()
{
    cudaEvent_t before, after;
    CHECK(cudaEventCreate(&before));
    CHECK(cudaEventCreate(&after));
    cudaGraph_t graph;
    CHECK(cudaGraphCreate(&graph, 0));
    cudaGraphNode_t wait, call, record;
    cudaHostNodeParams host{count_one, nullptr};
    CHECK(cudaGraphAddEventWaitNode(&wait, graph, nullptr, 0, before));
    CHECK(cudaGraphAddHostNode(&call, graph, &wait, 1, &host));
    CHECK(cudaGraphAddEventRecordNode(&record, graph, &call, 1, after));
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    Stream s(cudaStreamNonBlocking), t(cudaStreamNonBlocking), u(cudaStreamNonBlocking);
    count = gate = 0;
    CHECK(cudaLaunchHostFunc(s, wait_at_gate, nullptr));
    CHECK(cudaEventRecord(before, s));
    CHECK(cudaGraphLaunch(exec, t));
    CHECK(cudaStreamWaitEvent(u, after, 0));
    CHECK(cudaLaunchHostFunc(u, count_ten, nullptr));
    FAILS(cudaEventQuery(after), cudaErrorNotReady);
    TRUE(count == 0);
    gate = 1;
    CHECK(cudaStreamSynchronize(u));
    TRUE(count == 11);
    CHECK(cudaEventSynchronize(after));
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaEventDestroy(before));
    CHECK(cudaEventDestroy(after));
}

// --- captured

static cudaGraph_t captured_adds(const Ints &data, cudaStream_t s, int times, int what)
{
    cudaGraph_t graph;
    CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    for (int i = 0; i < times; i++) add<<<(N + 255) / 256, 256, 0, s>>>(data.p, N, what);
    CHECK(cudaStreamEndCapture(s, &graph));
    return graph;
}

static void a_captured_stream_does_nothing_until_launched()
{
    Ints data, other;
    int *result;
    CHECK(cudaMallocHost(&result, kBytes));
    Stream s;
    cudaGraph_t graph;
    cudaStreamCaptureStatus status;
    count = 0;
    CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    CHECK(cudaStreamIsCapturing(s, &status));
    TRUE(status == cudaStreamCaptureStatusActive);
    CHECK(cudaMemsetAsync(data.p, 1, kBytes, s));
    add<<<(N + 255) / 256, 256, 0, s>>>(data.p, N, 1);
    CHECK(cudaMemcpyAsync(other.p, data.p, kBytes, cudaMemcpyDeviceToDevice, s));
    twice<<<(N + 255) / 256, 256, 0, s>>>(other.p, N);
    CHECK(cudaMemcpyAsync(result, other.p, kBytes, cudaMemcpyDeviceToHost, s));
    CHECK(cudaLaunchHostFunc(s, count_one, nullptr));
    unsigned long long id = 0;
    cudaGraph_t in_the_making;
    const cudaGraphNode_t *nodes;
    size_t many = 0;
    CHECK(cudaStreamGetCaptureInfo(s, &status, &id, &in_the_making, &nodes, nullptr, &many));
    TRUE(id && in_the_making && many == 1);
    cudaGraphNodeType type;
    CHECK(cudaGraphNodeGetType(nodes[0], &type));
    TRUE(type == cudaGraphNodeTypeHost);
    CHECK(cudaStreamEndCapture(s, &graph));
    CHECK(cudaStreamIsCapturing(s, &status));
    TRUE(status == cudaStreamCaptureStatusNone);
    CHECK(cudaGraphGetNodes(graph, nullptr, &many));
    TRUE(many == 6);
    CHECK(cudaDeviceSynchronize());
    TRUE(count == 0 && data.all(0));
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphLaunch(exec, s));
    CHECK(cudaStreamSynchronize(s));
    TRUE(count == 1 && data.all(0x01010102) && result[7] == 2 * 0x01010102);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaFreeHost(result));
}

static void other_streams_join_by_events()
{
    Ints a, b, c;
    Stream s(cudaStreamNonBlocking), t(cudaStreamNonBlocking);
    cudaEvent_t fork, join;
    CHECK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
    const int blocks = (N + 255) / 256;
    CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    add<<<blocks, 256, 0, s>>>(a.p, N, 1);
    CHECK(cudaEventRecord(fork, s));
    CHECK(cudaStreamWaitEvent(t, fork, 0));
    sum<<<blocks, 256, 0, t>>>(a.p, a.p, b.p, N);
    add<<<blocks, 256, 0, t>>>(b.p, N, 10);
    CHECK(cudaEventRecord(join, t));
    FAILS(cudaEventSynchronize(nullptr), cudaErrorInvalidResourceHandle);
    sum<<<blocks, 256, 0, s>>>(a.p, a.p, c.p, N);
    CHECK(cudaStreamWaitEvent(s, join, 0));
    sum<<<blocks, 256, 0, s>>>(b.p, c.p, c.p, N);
    cudaGraph_t graph;
    FAILS(cudaStreamEndCapture(t, &graph), cudaErrorStreamCaptureUnmatched);
    CHECK(cudaStreamEndCapture(s, &graph));
    cudaStreamCaptureStatus status;
    CHECK(cudaStreamIsCapturing(t, &status));
    TRUE(status == cudaStreamCaptureStatusNone);
    size_t nodes, edges;
    CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
    CHECK(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &edges));
    TRUE(nodes == 5 && edges == 5);
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 1; i <= 10; i++) {
        CHECK(cudaGraphLaunch(exec, s));
        CHECK(cudaStreamSynchronize(s));
        TRUE(a.all(i) && b.all(2 * i + 10) && c.all(4 * i + 10));
    }
    FAILS(cudaEventQuery(join), cudaErrorCapturedEvent);
    CHECK(cudaEventRecord(join, s));
    CHECK(cudaEventSynchronize(join));
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaEventDestroy(fork));
    CHECK(cudaEventDestroy(join));
}

static void an_executable_takes_over_a_graph_of_its_shape()
{
    Ints data;
    Stream s;
    cudaGraph_t first = captured_adds(data, s, 3, 1), same = captured_adds(data, s, 3, 10),
                longer = captured_adds(data, s, 4, 1);
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, first, 0));
    CHECK(cudaGraphLaunch(exec, s));
    CHECK(cudaStreamSynchronize(s));
    TRUE(data.all(3));
    cudaGraphExecUpdateResultInfo info;
    CHECK(cudaGraphExecUpdate(exec, same, &info));
    TRUE(info.result == cudaGraphExecUpdateSuccess);
    CHECK(cudaGraphLaunch(exec, s));
    CHECK(cudaStreamSynchronize(s));
    TRUE(data.all(33));
    FAILS(cudaGraphExecUpdate(exec, longer, &info), cudaErrorGraphExecUpdateFailure);
    TRUE(info.result == cudaGraphExecUpdateErrorTopologyChanged && !info.errorNode);
    // A graph launched into a captured stream becomes part of the new one.
    cudaGraph_t outer;
    CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
    CHECK(cudaGraphLaunch(exec, s));
    twice<<<(N + 255) / 256, 256, 0, s>>>(data.p, N);
    CHECK(cudaStreamEndCapture(s, &outer));
    cudaGraphExec_t exec_outer;
    CHECK(cudaGraphInstantiate(&exec_outer, outer, 0));
    CHECK(cudaGraphLaunch(exec_outer, s));
    CHECK(cudaStreamSynchronize(s));
    TRUE(data.all(126));
    for (cudaGraphExec_t e : {exec, exec_outer}) CHECK(cudaGraphExecDestroy(e));
    for (cudaGraph_t g : {first, same, longer, outer}) CHECK(cudaGraphDestroy(g));
}

static void what_may_not_be_captured_is_refused()
{
    Stream s, other(cudaStreamNonBlocking);
    cudaGraph_t graph;
    cudaEvent_t event;
    CHECK(cudaEventCreate(&event));
    void *p;
    FAILS(cudaStreamEndCapture(s, &graph), cudaErrorIllegalState);
    FAILS(cudaStreamBeginCapture(cudaStreamLegacy, cudaStreamCaptureModeGlobal),
          cudaErrorStreamCaptureUnsupported);

    const auto begin = [&](cudaStream_t stream, cudaStreamCaptureMode mode) {
        CHECK(cudaStreamBeginCapture(stream, mode));
    };
    const auto invalid = [&](cudaStream_t stream) {
        FAILS(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
        TRUE(!graph);
    };
    begin(s, cudaStreamCaptureModeGlobal);
    FAILS(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal), cudaErrorIllegalState);
    FAILS(cudaStreamSynchronize(s), cudaErrorStreamCaptureUnsupported);
    FAILS(cudaLaunchHostFunc(s, count_one, nullptr), cudaErrorStreamCaptureInvalidated);
    invalid(s);
    begin(s, cudaStreamCaptureModeGlobal);
    FAILS(cudaMalloc(&p, 100), cudaErrorStreamCaptureUnsupported);
    invalid(s);
    begin(s, cudaStreamCaptureModeRelaxed);
    CHECK(cudaMalloc(&p, 100));
    CHECK(cudaFree(p));
    CHECK(cudaStreamEndCapture(s, &graph));
    CHECK(cudaGraphDestroy(graph));
    // Other threads: a thread-local capture does not concern them, a global one does unless they
    // say otherwise.
    begin(s, cudaStreamCaptureModeThreadLocal);
    std::thread([&] { CHECK(cudaMalloc(&p, 100)); }).join();
    CHECK(cudaStreamEndCapture(s, &graph));
    CHECK(cudaGraphDestroy(graph));
    begin(s, cudaStreamCaptureModeGlobal);
    std::thread([&] {
        cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
        CHECK(cudaThreadExchangeStreamCaptureMode(&mode));
        TRUE(mode == cudaStreamCaptureModeGlobal);
        CHECK(cudaFree(p));
        CHECK(cudaThreadExchangeStreamCaptureMode(&mode));
        FAILS(cudaMalloc(&p, 100), cudaErrorStreamCaptureUnsupported);
        FAILS(cudaStreamEndCapture(s, &graph), cudaErrorStreamCaptureWrongThread);
    }).join();
    invalid(s);
    // The legacy default stream waits for blocking streams: it cannot while one is captured.
    begin(s, cudaStreamCaptureModeRelaxed);
    FAILS(cudaLaunchHostFunc(cudaStreamLegacy, count_one, nullptr), cudaErrorStreamCaptureImplicit);
    invalid(s);
    begin(other, cudaStreamCaptureModeRelaxed);
    CHECK(cudaLaunchHostFunc(cudaStreamLegacy, count_one, nullptr));
    CHECK(cudaStreamEndCapture(other, &graph));
    CHECK(cudaGraphDestroy(graph));
    // Events from outside, and streams that do not come back.
    CHECK(cudaEventRecord(event, other));
    begin(s, cudaStreamCaptureModeRelaxed);
    FAILS(cudaStreamWaitEvent(s, event, 0), cudaErrorStreamCaptureIsolation);
    invalid(s);
    begin(s, cudaStreamCaptureModeRelaxed);
    CHECK(cudaEventRecord(event, s));
    CHECK(cudaStreamWaitEvent(other, event, 0));
    CHECK(cudaLaunchHostFunc(other, count_one, nullptr));
    FAILS(cudaStreamEndCapture(s, &graph), cudaErrorStreamCaptureUnjoined);
    // After all that both streams are as ever.
    CHECK(cudaLaunchHostFunc(other, count_one, nullptr));
    CHECK(cudaStreamSynchronize(other));
    CHECK(cudaStreamSynchronize(s));
    // A stream that ends while it is captured takes its capture along.
    {
        Stream gone;
        begin(gone, cudaStreamCaptureModeGlobal);
    }
    CHECK(cudaMalloc(&p, 100));
    CHECK(cudaFree(p));
    CHECK(cudaEventDestroy(event));
}

static void a_faulty_kernel_in_a_graph_is_the_contexts_error()
{
    Stream s;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    add<<<1, 1, 0, s>>>((int *)16, 1, 1);
    CHECK(cudaLaunchHostFunc(s, count_one, nullptr));
    CHECK(cudaStreamEndCapture(s, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    count = 0;
    CHECK(cudaGraphLaunch(exec, s));
    FAILS(cudaStreamSynchronize(s.s), cudaErrorIllegalAddress);
    TRUE(count == 0);
    exit(0);
}

int main()
{
    a_graph_made_by_hand_runs_again_and_again();
    edges_can_be_added_and_removed();
    independent_nodes_do_not_wait_for_each_other();
    graphs_hold_graphs_and_clones_are_their_own();
    events_in_graphs_order_it_with_streams();
    a_captured_stream_does_nothing_until_launched();
    other_streams_join_by_events();
    an_executable_takes_over_a_graph_of_its_shape();
    what_may_not_be_captured_is_refused();
    a_faulty_kernel_in_a_graph_is_the_contexts_error();
}
