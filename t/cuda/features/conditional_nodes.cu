// SPDX-License-Identifier: Apache-2.0
// Conditional graph nodes: if and else, while, switch, one inside another; what is refused. The
// kernels that set conditions are PTX by hand, as XLA has them: nvcc wants its device linker for
// cudaGraphSetConditional.
#include "check.h"

static const char kPtx[] = R"(
.version 8.0
.target sm_80
.address_size 64
.extern .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value);

// The value is what stands at `from`, one less afterwards, where it was not 0.
.visible .entry set(.param .u64 handle, .param .u64 from)
{
    .reg .pred %p;
    .reg .b32 %r<3>;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [handle];
    ld.param.u64 %rd2, [from];
    ld.global.u32 %r1, [%rd2];
    setp.eq.u32 %p, %r1, 0;
    {
        .param .b64 a;
        .param .b32 b;
        st.param.b64 [a], %rd1;
        st.param.b32 [b], %r1;
        call.uni cudaGraphSetConditional, (a, b);
    }
    @%p bra DONE;
    sub.u32 %r2, %r1, 1;
    st.global.u32 [%rd2], %r2;
DONE:
    ret;
}

.visible .entry add(.param .u64 to, .param .u32 value)
{
    .reg .b32 %r<4>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [to];
    ld.param.u32 %r1, [value];
    ld.global.u32 %r2, [%rd1];
    add.u32 %r3, %r1, %r2;
    st.global.u32 [%rd1], %r3;
    ret;
}
)";

static CUcontext context;
static CUfunction set, add;
static CUdeviceptr words;  // [0] the source of conditions, [1] the result, [2] an inner source

static CUgraphNode kernel(CUgraph g, CUfunction f, void **arguments, CUgraphNode after = nullptr)
{
    CUgraphNode node;
    CUDA_KERNEL_NODE_PARAMS p{};
    p.func = f;
    p.gridDimX = p.gridDimY = p.gridDimZ = p.blockDimX = p.blockDimY = p.blockDimZ = 1;
    p.kernelParams = arguments;
    DRIVER(cuGraphAddKernelNode(&node, g, &after, after ? 1 : 0, &p));
    return node;
}

static CUgraphNode sets(CUgraph g, CUgraphConditionalHandle h, CUdeviceptr from,
                        CUgraphNode after = nullptr)
{
    void *arguments[] = {&h, &from};
    return kernel(g, set, arguments, after);
}

static CUgraphNode adds(CUgraph g, unsigned value, CUgraphNode after = nullptr)
{
    CUdeviceptr to = words + 4;
    void *arguments[] = {&to, &value};
    return kernel(g, add, arguments, after);
}

static CUgraphConditionalHandle handle(CUgraph g, unsigned initial = 0, unsigned flags = 0)
{
    CUgraphConditionalHandle h = 0;
    DRIVER(cuGraphConditionalHandleCreate(&h, g, context, initial, flags));
    return h;
}

// The graphs of a new conditional node.
static std::vector<CUgraph> node(CUgraph g, CUgraphConditionalHandle h,
                                 CUgraphConditionalNodeType type, unsigned size,
                                 CUgraphNode after = nullptr)
{
    CUgraphNode made;
    CUgraphNodeParams p{};
    p.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    p.conditional.handle = h;
    p.conditional.type = type;
    p.conditional.size = size;
    p.conditional.ctx = context;
    DRIVER(cuGraphAddNode(&made, g, &after, nullptr, after ? 1 : 0, &p));
    CUgraphNodeType seen;
    DRIVER(cuGraphNodeGetType(made, &seen));
    TRUE(seen == CU_GRAPH_NODE_TYPE_CONDITIONAL && p.conditional.phGraph_out);
    return {p.conditional.phGraph_out, p.conditional.phGraph_out + size};
}

// What the result is after a launch that starts with this source and inner source.
static unsigned launch(CUgraphExec e, unsigned source, unsigned inner = 0)
{
    const unsigned before[] = {source, 0, inner};
    unsigned result = 0;
    DRIVER(cuMemcpyHtoD(words, before, sizeof before));
    DRIVER(cuGraphLaunch(e, nullptr));
    DRIVER(cuMemcpyDtoH(&result, words + 4, 4));
    return result;
}

static CUgraph graph()
{
    CUgraph g;
    DRIVER(cuGraphCreate(&g, 0));
    return g;
}

static CUgraphExec executable(CUgraph g)
{
    CUgraphExec e;
    DRIVER(cuGraphInstantiate(&e, g, 0));
    return e;
}

static void end(CUgraph g, CUgraphExec e)
{
    DRIVER(cuGraphExecDestroy(e));
    DRIVER(cuGraphDestroy(g));
}

static void if_and_else()
{
    CUgraph g = graph();
    const auto h = handle(g);
    const auto bodies = node(g, h, CU_GRAPH_COND_TYPE_IF, 2, sets(g, h, words));
    adds(bodies[0], 10);
    adds(bodies[1], 20);
    DRIVER_FAILS(cuGraphDestroy(bodies[0]), CUDA_ERROR_INVALID_VALUE);
    CUgraphExec e = executable(g);
    for (int i = 0; i < 3; i++) {
        TRUE(launch(e, 5) == 10);
        TRUE(launch(e, 0) == 20);
    }
    end(g, e);

    // By the value that each launch begins with: no kernel sets it.
    g = graph();
    const auto body = node(g, handle(g, 1, CU_GRAPH_COND_ASSIGN_DEFAULT), CU_GRAPH_COND_TYPE_IF, 1);
    adds(body[0], 3);
    e = executable(g);
    TRUE(launch(e, 0) == 3 && launch(e, 0) == 3);
    end(g, e);
}

static void while_and_one_inside()
{
    CUgraph g = graph();
    const auto h = handle(g, 1, CU_GRAPH_COND_ASSIGN_DEFAULT);
    const CUgraph body = node(g, h, CU_GRAPH_COND_TYPE_WHILE, 1)[0];
    CUgraphNode last = adds(body, 1);
    const auto inner = handle(body);
    last = sets(body, inner, words + 8, last);
    const CUgraph sometimes = node(body, inner, CU_GRAPH_COND_TYPE_IF, 1, last)[0];
    adds(sometimes, 100);
    sets(body, h, words, last);
    CUgraphExec e = executable(g);
    // Once by the default, and once more for each of the source; the inner body while its source
    // lasts.
    TRUE(launch(e, 0) == 1);
    TRUE(launch(e, 4) == 5);
    TRUE(launch(e, 4, 2) == 205);
    TRUE(launch(e, 1000) == 1001);
    end(g, e);
}

static void one_of_several()
{
    CUgraph g = graph();
    const auto h = handle(g);
    const auto bodies = node(g, h, CU_GRAPH_COND_TYPE_SWITCH, 3, sets(g, h, words));
    for (unsigned i = 0; i < 3; i++) adds(bodies[i], 10 + i);
    CUgraphExec e = executable(g);
    for (unsigned i = 0; i < 3; i++) TRUE(launch(e, i) == 10 + i);
    TRUE(launch(e, 3) == 0 && launch(e, ~0u) == 0);
    end(g, e);
}

// A body that a stream's capture fills; another graph of the same shape in an executable one's
// place.
static void captured()
{
    CUstream s;
    DRIVER(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    const auto make = [&](unsigned byte) {
        CUgraph g = graph();
        const auto h = handle(g);
        const CUgraph body = node(g, h, CU_GRAPH_COND_TYPE_IF, 1, sets(g, h, words))[0];
        DRIVER(cuStreamBeginCaptureToGraph(s, body, nullptr, nullptr, 0,
                                           CU_STREAM_CAPTURE_MODE_GLOBAL));
        DRIVER(cuMemsetD8Async(words + 4, static_cast<unsigned char>(byte), 1, s));
        unsigned value = 256;
        CUdeviceptr to = words + 4;
        void *arguments[] = {&to, &value};
        DRIVER(cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, s, arguments, nullptr));
        CUgraph same;
        DRIVER(cuStreamEndCapture(s, &same));
        TRUE(same == body);
        return g;
    };
    CUgraph first = make(7), second = make(9);
    CUgraphExec e = executable(first);
    TRUE(launch(e, 1) == 256 + 7 && launch(e, 0) == 0);
    CUgraphExecUpdateResultInfo info;
    DRIVER(cuGraphExecUpdate(e, second, &info));
    TRUE(launch(e, 1) == 256 + 9 && launch(e, 0) == 0);
    DRIVER(cuGraphDestroy(second));
    end(first, e);
    DRIVER(cuStreamDestroy(s));
}

// Of a remote GPU the program's memory is too far away for what may run any number of times.
static void copies_of_the_programs_memory()
{
    unsigned *host;
    CHECK(cudaMallocHost(&host, 4));
    *host = 77;
    CUgraph g = graph();
    const auto h = handle(g);
    const CUgraph body = node(g, h, CU_GRAPH_COND_TYPE_IF, 1, sets(g, h, words))[0];
    CUDA_MEMCPY3D copy{};
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = host;
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = words + 4;
    copy.WidthInBytes = 4;
    copy.Height = copy.Depth = 1;
    CUgraphNode made;
    CUgraphExec e;
    DRIVER(cuGraphAddMemcpyNode(&made, body, nullptr, 0, &copy, context));
    if (getenv("RGPU_LEASE")) {
        DRIVER_FAILS(cuGraphInstantiate(&e, g, 0), CUDA_ERROR_NOT_SUPPORTED);
    } else {
        e = executable(g);
        TRUE(launch(e, 1) == 77 && launch(e, 0) == 0);
        DRIVER(cuGraphExecDestroy(e));
    }
    DRIVER(cuGraphDestroy(g));
    CHECK(cudaFreeHost(host));
}

static void refused()
{
    CUgraph g = graph(), other;
    CUgraphExec e;
    const auto h = handle(g);
    CUgraphConditionalHandle none;
    DRIVER_FAILS(cuGraphConditionalHandleCreate(&none, g, context, 0, 99),
                 CUDA_ERROR_INVALID_VALUE);
    // Of no node.
    DRIVER_FAILS(cuGraphInstantiate(&e, g, 0), CUDA_ERROR_INVALID_VALUE);
    CUgraphNode made;
    CUgraphNodeParams p{};
    p.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    p.conditional.ctx = context;
    p.conditional.type = CU_GRAPH_COND_TYPE_WHILE;
    const auto fails = [&](CUgraphConditionalHandle with, unsigned size) {
        p.conditional.handle = with;
        p.conditional.size = size;
        DRIVER_FAILS(cuGraphAddNode(&made, g, nullptr, nullptr, 0, &p), CUDA_ERROR_INVALID_VALUE);
    };
    fails(h, 0);
    fails(h, 2);
    fails(h + 4, 1);
    fails(words, 1);
    const CUgraph body = node(g, h, CU_GRAPH_COND_TYPE_WHILE, 1)[0];
    fails(h, 1);  // a handle is for one node
    DRIVER_FAILS(cuGraphClone(&other, g), CUDA_ERROR_NOT_SUPPORTED);
    DRIVER(cuGraphCreate(&other, 0));
    DRIVER_FAILS(cuGraphAddChildGraphNode(&made, other, nullptr, 0, g), CUDA_ERROR_NOT_SUPPORTED);
    DRIVER(cuGraphDestroy(other));
    // CUDA allows no host functions there.
    CUDA_HOST_NODE_PARAMS host{[](void *) {}, nullptr};
    DRIVER(cuGraphAddHostNode(&made, body, nullptr, 0, &host));
    DRIVER_FAILS(cuGraphInstantiate(&e, g, 0), CUDA_ERROR_INVALID_VALUE);
    DRIVER(cuGraphDestroy(g));
}

int main()
{
    CUmodule module;
    CHECK(cudaFree(nullptr));
    DRIVER(cuCtxGetCurrent(&context));
    DRIVER(cuModuleLoadData(&module, kPtx));
    DRIVER(cuModuleGetFunction(&set, module, "set"));
    DRIVER(cuModuleGetFunction(&add, module, "add"));
    DRIVER(cuMemAlloc(&words, 12));
    if_and_else();
    while_and_one_inside();
    one_of_several();
    captured();
    copies_of_the_programs_memory();
    refused();
    DRIVER(cuMemFree(words));
    return right();
}
