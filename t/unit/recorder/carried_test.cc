// SPDX-License-Identifier: Apache-2.0
// Structs that hold handles or pointers go over the wire and come back: the driver gets every field
// and all that they point to, with its own handles; who asks for one gets what the program gave.
#include <criterion/criterion.h>
#include <unistd.h>

#include "interpose/stub/by_hand.h"
#include "t/unit/recorder/support.h"

using namespace rgpu;
using namespace rgpu::test;
using interpose::remote;
using recorder::deep;

namespace {

constexpr unsigned kLimit = 120;  // seconds: a test that hangs ends here
constexpr int kTimes = 50;
std::mt19937_64 dice(2026);

template <class T> T random_value()
{
    T v;
    for (size_t i = 0; i < sizeof v; i++)
        reinterpret_cast<uint8_t *>(&v)[i] = static_cast<uint8_t>(dice());
    return v;
}
template <class... T> void randomize(T &...values) { ((values = random_value<T>()), ...); }

// One struct as the program gives it, and as the driver must get it.
template <class P> struct Pair {
    P client{}, driver{};
};

template <class P> Bytes deep_of(const P &p)
{
    Bytes b;
    deep(b, p);
    return b;
}

bool contains(const Bytes &all, const Bytes &part)
{
    return !part.empty() &&
           std::search(all.begin(), all.end(), part.begin(), part.end()) != all.end();
}

// Objects that live on both sides, by kind.
class Scene {
public:
    Scene()
    {
        alarm(kLimit);
        use_recorder();
        wire = new Wire;  // its threads never end
        cr_assert(remote<CallId::cuGraphCreate>(&graph, 0u) == CUDA_SUCCESS);
        constexpr char image[] =
            ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry recorded() { ret; }\n";
        CUmodule module{};
        CUlibrary library{};
        namespace own = interpose::own;
        cr_assert(own::cuModuleLoadDataEx(&module, image, 0, nullptr, nullptr) == CUDA_SUCCESS);
        cr_assert(own::cuModuleGetFunction(&function, module, "recorded") == CUDA_SUCCESS);
        cr_assert(own::cuLibraryLoadData(&library, image, nullptr, nullptr, 0, nullptr, nullptr,
                                         0) == CUDA_SUCCESS);
        cr_assert(own::cuLibraryGetKernel(&kernel, library, "recorded") == CUDA_SUCCESS);
    }

    // A new object for both structs.
    template <class T> void both(T &client, T &driver)
    {
        driver = reinterpret_cast<T>(uintptr_t{0xd00000000} + (dice() & 0xfffffff0));
        client = wire->handle(driver);
    }
    template <class T> T on_server(T client)
    {
        T driver{};
        cr_assert(wire->server().objects.get(interpose::Handles::get().id(client).value(),
                                             driver) == CUDA_SUCCESS);
        return driver;
    }
    // The driver got the struct with the last call of this line.
    template <class P> void expect_arrived(CallId id, const P &driver)
    {
        cr_assert(wire->barrier() == CUDA_SUCCESS);
        cr_expect(contains(note_of(id).in, deep_of(driver)), "%s: the driver got another struct",
                  calls::info(id).symbol.data());
    }
    template <class P> void expect_same(CallId id, const P &given, const P &got)
    {
        cr_expect(deep_of(given) == deep_of(got), "%s: the client got another struct",
                  calls::info(id).symbol.data());
    }

    Wire *wire = nullptr;
    CUgraph graph{};
    CUfunction function{};
    CUkernel kernel{};
    std::array<uint64_t, recorder::kParameters> values{};
    void *params[recorder::kParameters] = {&values[0], &values[1], &values[2]};
    size_t value_bytes = sizeof values;
    void *extra[5] = {CU_LAUNCH_PARAM_BUFFER_POINTER, values.data(), CU_LAUNCH_PARAM_BUFFER_SIZE,
                      &value_bytes, CU_LAUNCH_PARAM_END};
    std::vector<uint8_t> memory;
};

template <class P> Pair<P> kernel_node(Scene &s)
{
    Pair<P> p;
    P &c = p.client;
    randomize(c.gridDimX, c.gridDimY, c.gridDimZ, c.blockDimX, c.blockDimY, c.blockDimZ,
              c.sharedMemBytes, s.values);
    if (dice() % 2)
        c.kernelParams = s.params;
    else
        c.extra = s.extra;
    p.driver = c;
    const bool as_kernel = dice() % 3 == 0;
    if constexpr (requires { c.kern; }) {
        if (as_kernel) c.kern = s.kernel, p.driver.kern = s.on_server(s.kernel);
        if (dice() % 2) s.both(c.ctx, p.driver.ctx);
        if (!as_kernel) c.func = s.function, p.driver.func = s.on_server(s.function);
    } else {
        c.func = s.function, p.driver.func = s.on_server(s.function);
    }
    return p;
}

// Somewhere in the first half of the recorder's memory.
CUdeviceptr in_memory() { return recorder::kMemory + dice() % (recorder::kMemoryBytes / 2); }

Pair<CUDA_MEMCPY3D> box(Scene &s)
{
    Pair<CUDA_MEMCPY3D> p;
    CUDA_MEMCPY3D &c = p.client;
    randomize(c.srcLOD, c.dstLOD);
    for (size_t *n :
         {&c.srcXInBytes, &c.srcY, &c.srcZ, &c.srcPitch, &c.srcHeight, &c.dstXInBytes, &c.dstY,
          &c.dstZ, &c.dstPitch, &c.dstHeight, &c.WidthInBytes, &c.Height, &c.Depth})
        *n = dice() % 64;  // all of it lies in the recorder's memory
    c.srcDevice = in_memory(), c.dstDevice = in_memory();
    c.srcMemoryType = dice() % 2 ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_DEVICE;
    c.dstMemoryType = dice() % 2 ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_DEVICE;
    p.driver = c;
    if (c.srcMemoryType == CU_MEMORYTYPE_ARRAY) s.both(c.srcArray, p.driver.srcArray);
    if (c.dstMemoryType == CU_MEMORYTYPE_ARRAY) s.both(c.dstArray, p.driver.dstArray);
    return p;
}

template <class P> Pair<P> allocation(Scene &s)
{
    Pair<P> p;
    P &c = p.client;
    randomize(c.poolProps, c.bytesize);
    c.accessDescCount = dice() % 5;
    s.memory.resize(8 * sizeof *c.accessDescs);
    for (uint8_t &b : s.memory) b = static_cast<uint8_t>(dice());
    c.accessDescs = reinterpret_cast<CUmemAccessDesc *>(s.memory.data());
    p.driver = c;
    return p;
}

template <class P> Pair<P> batch(Scene &s)
{
    Pair<P> p;
    P &c = p.client;
    randomize(c.flags);
    c.count = static_cast<unsigned>(dice() % 5);
    s.memory.resize(8 * sizeof *c.paramArray);
    for (uint8_t &b : s.memory) b = static_cast<uint8_t>(dice());
    c.paramArray = reinterpret_cast<CUstreamBatchMemOpParams *>(s.memory.data());
    for (unsigned i = 0; i < c.count; i++)
        c.paramArray[i].operation = CU_STREAM_MEM_OP_WRITE_VALUE_64,
        c.paramArray[i].writeValue.address = in_memory();
    p.driver = c;
    s.both(c.ctx, p.driver.ctx);
    return p;
}

template <CallId Add, CallId Set, CallId Get, class P> void kernel_nodes(Scene &s)
{
    for (int i = 0; i < kTimes; i++) {
        CUgraphNode node{};
        auto p = kernel_node<P>(s);
        const P *given = &p.client;
        cr_assert(remote<Add>(&node, s.graph, static_cast<const CUgraphNode *>(nullptr), size_t{0},
                              given) == CUDA_SUCCESS);
        s.expect_arrived(Add, p.driver);
        p = kernel_node<P>(s);
        cr_assert(remote<Set>(node, given) == CUDA_SUCCESS);
        s.expect_arrived(Set, p.driver);
        P got{};
        cr_assert(remote<Get>(node, &got) == CUDA_SUCCESS);
        s.expect_same(Get, p.client, got);
    }
}

}  // namespace

Test(carried, kernel_nodes_of_both_versions)
{
    Scene s;
    kernel_nodes<CallId::cuGraphAddKernelNode_v2, CallId::cuGraphKernelNodeSetParams_v2,
                 CallId::cuGraphKernelNodeGetParams_v2, CUDA_KERNEL_NODE_PARAMS_v2>(s);
    kernel_nodes<CallId::cuGraphAddKernelNode, CallId::cuGraphKernelNodeSetParams,
                 CallId::cuGraphKernelNodeGetParams, CUDA_KERNEL_NODE_PARAMS_v1>(s);
}

Test(carried, copy_nodes)
{
    Scene s;
    for (int i = 0; i < kTimes; i++) {
        CUgraphNode node{};
        auto p = box(s);
        const CUDA_MEMCPY3D *given = &p.client;
        CUcontext context{}, on_server{};
        s.both(context, on_server);
        cr_assert(remote<CallId::cuGraphAddMemcpyNode>(&node, s.graph,
                                                       static_cast<const CUgraphNode *>(nullptr),
                                                       size_t{0}, given, context) == CUDA_SUCCESS);
        s.expect_arrived(CallId::cuGraphAddMemcpyNode, p.driver);
        p = box(s);
        cr_assert(remote<CallId::cuGraphMemcpyNodeSetParams>(node, given) == CUDA_SUCCESS);
        s.expect_arrived(CallId::cuGraphMemcpyNodeSetParams, p.driver);
        CUDA_MEMCPY3D got{};
        cr_assert(remote<CallId::cuGraphMemcpyNodeGetParams>(node, &got) == CUDA_SUCCESS);
        s.expect_same(CallId::cuGraphMemcpyNodeGetParams, p.client, got);
    }
}

Test(carried, host_nodes)
{
    Scene s;
    const CUhostFn functions[] = {[](void *) {}, [](void *p) { *static_cast<int *>(p) = 1; }};
    for (int i = 0; i < kTimes; i++) {
        CUgraphNode node{};
        CUDA_HOST_NODE_PARAMS p{functions[dice() % 2], random_value<void *>()}, got{};
        const CUDA_HOST_NODE_PARAMS *given = &p;
        cr_assert(remote<CallId::cuGraphAddHostNode>(&node, s.graph,
                                                     static_cast<const CUgraphNode *>(nullptr),
                                                     size_t{0}, given) == CUDA_SUCCESS);
        p = {functions[dice() % 2], random_value<void *>()};
        cr_assert(remote<CallId::cuGraphHostNodeSetParams>(node, given) == CUDA_SUCCESS);
        cr_assert(remote<CallId::cuGraphHostNodeGetParams>(node, &got) == CUDA_SUCCESS);
        cr_expect(got.fn == p.fn && got.userData == p.userData,
                  "the program's own function comes back");
    }
}

Test(carried, allocation_nodes)
{
    Scene s;
    for (int i = 0; i < kTimes; i++) {
        CUgraphNode node{};
        auto p = allocation<CUDA_MEM_ALLOC_NODE_PARAMS>(s);
        const Bytes before = deep_of(p.client);
        cr_assert(remote<CallId::cuGraphAddMemAllocNode>(&node, s.graph,
                                                         static_cast<const CUgraphNode *>(nullptr),
                                                         size_t{0}, &p.client) == CUDA_SUCCESS);
        s.expect_arrived(CallId::cuGraphAddMemAllocNode, p.driver);
        Bytes out;
        recorder::deep_out(out, p.client);
        cr_expect(note_of(CallId::cuGraphAddMemAllocNode).out.size() == sizeof node + out.size() &&
                      contains(note_of(CallId::cuGraphAddMemAllocNode).out, out),
                  "the address comes back");
        cr_expect(deep_of(p.client) == before, "the program's descriptors stay its own");
        CUDA_MEM_ALLOC_NODE_PARAMS got{};
        cr_assert(remote<CallId::cuGraphMemAllocNodeGetParams>(node, &got) == CUDA_SUCCESS);
        s.expect_same(CallId::cuGraphMemAllocNodeGetParams, p.client, got);
    }
}

Test(carried, batches_of_memory_operations)
{
    Scene s;
    for (int i = 0; i < kTimes; i++) {
        CUgraphNode node{};
        auto p = batch<CUDA_BATCH_MEM_OP_NODE_PARAMS>(s);
        const CUDA_BATCH_MEM_OP_NODE_PARAMS *given = &p.client;
        cr_assert(remote<CallId::cuGraphAddBatchMemOpNode>(
                      &node, s.graph, static_cast<const CUgraphNode *>(nullptr), size_t{0},
                      given) == CUDA_SUCCESS);
        s.expect_arrived(CallId::cuGraphAddBatchMemOpNode, p.driver);
        CUDA_BATCH_MEM_OP_NODE_PARAMS got{};
        cr_assert(remote<CallId::cuGraphBatchMemOpNodeGetParams>(node, &got) == CUDA_SUCCESS);
        s.expect_same(CallId::cuGraphBatchMemOpNodeGetParams, p.client, got);
    }
}

Test(carried, nodes_of_every_type)
{
    Scene s;
    auto add = [&](Pair<CUgraphNodeParams> &p) {
        CUgraphNode node{};
        cr_assert(remote<CallId::cuGraphAddNode_v2>(&node, s.graph,
                                                    static_cast<const CUgraphNode *>(nullptr),
                                                    static_cast<const CUgraphEdgeData *>(nullptr),
                                                    size_t{0}, &p.client) == CUDA_SUCCESS,
                  "type %d", static_cast<int>(p.client.type));
        s.expect_arrived(CallId::cuGraphAddNode_v2, p.driver);
        Bytes out;
        recorder::deep_out(out, p.client);
        cr_expect(out.empty() || contains(note_of(CallId::cuGraphAddNode_v2).out, out),
                  "the address comes back");
    };
    auto typed = [](CUgraphNodeType type) {
        Pair<CUgraphNodeParams> p;
        p.client.type = p.driver.type = type;
        return p;
    };
    for (int i = 0; i < kTimes; i++) {
        auto p = typed(CU_GRAPH_NODE_TYPE_KERNEL);
        const auto k = kernel_node<CUDA_KERNEL_NODE_PARAMS_v3>(s);
        p.client.kernel = k.client, p.driver.kernel = k.driver;
        add(p);
        p = typed(CU_GRAPH_NODE_TYPE_MEMCPY);
        const auto c = box(s);
        p.client.memcpy.copyParams = c.client, p.driver.memcpy.copyParams = c.driver;
        if (dice() % 2) s.both(p.client.memcpy.copyCtx, p.driver.memcpy.copyCtx);
        add(p);
        p = typed(CU_GRAPH_NODE_TYPE_MEMSET);
        randomize(p.client.memset.value);
        p.client.memset.dst = in_memory();
        p.client.memset.elementSize = 2, p.client.memset.width = dice() % 64,
        p.client.memset.height = dice() % 64;
        p.client.memset.pitch = dice() % 256;
        p.driver.memset = p.client.memset;
        s.both(p.client.memset.ctx, p.driver.memset.ctx);
        add(p);
        p = typed(CU_GRAPH_NODE_TYPE_HOST);
        p.client.host.fn = p.driver.host.fn = [](void *) {};
        add(p);
        p = typed(CU_GRAPH_NODE_TYPE_GRAPH);
        s.both(p.client.graph.graph, p.driver.graph.graph);
        add(p);
        p = typed(CU_GRAPH_NODE_TYPE_WAIT_EVENT);
        s.both(p.client.eventWait.event, p.driver.eventWait.event);
        add(p);
        p = typed(CU_GRAPH_NODE_TYPE_EVENT_RECORD);
        s.both(p.client.eventRecord.event, p.driver.eventRecord.event);
        add(p);
        p = typed(CU_GRAPH_NODE_TYPE_MEM_ALLOC);
        const auto a = allocation<CUDA_MEM_ALLOC_NODE_PARAMS_v2>(s);
        p.client.alloc = a.client, p.driver.alloc = a.driver;
        add(p);
        p = typed(CU_GRAPH_NODE_TYPE_MEM_FREE);
        p.client.free.dptr = in_memory();
        p.driver.free = p.client.free;
        add(p);
        p = typed(CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
        const auto b = batch<CUDA_BATCH_MEM_OP_NODE_PARAMS_v2>(s);
        p.client.memOp = b.client, p.driver.memOp = b.driver;
        add(p);
        p = typed(CU_GRAPH_NODE_TYPE_CONDITIONAL);
        CUDA_CONDITIONAL_NODE_PARAMS &condition = p.client.conditional;
        randomize(condition.handle);
        condition.type = CU_GRAPH_COND_TYPE_SWITCH;
        condition.size = 1 + static_cast<unsigned>(dice() % 64);
        p.driver.conditional = condition;
        s.both(condition.ctx, p.driver.conditional.ctx);
        s.wire->server().addresses.give(calls::Token::condition, condition.handle);
        add(p);
        p = typed(CU_GRAPH_NODE_TYPE_EMPTY);
        add(p);
    }
}

Test(carried, outcomes)
{
    Scene s;
    CUgraphExec exec{};
    Pair<CUDA_GRAPH_INSTANTIATE_PARAMS> p;
    randomize(p.client.flags);
    p.driver = p.client;
    s.both(p.client.hUploadStream, p.driver.hUploadStream);
    cr_assert(remote<CallId::cuGraphInstantiateWithParams>(&exec, s.graph, &p.client) ==
              CUDA_SUCCESS);
    s.expect_arrived(CallId::cuGraphInstantiateWithParams, p.driver);
    Bytes out;
    recorder::add_all(out, s.on_server(p.client.hErrNode_out), p.client.result_out);
    cr_expect(contains(note_of(CallId::cuGraphInstantiateWithParams).out, out));
    CUgraphExecUpdateResultInfo info{};
    cr_assert(remote<CallId::cuGraphExecUpdate_v2>(exec, s.graph, &info) == CUDA_SUCCESS);
    out.clear();
    recorder::add_all(out, info.result, s.on_server(info.errorNode),
                      s.on_server(info.errorFromNode));
    cr_expect(note_of(CallId::cuGraphExecUpdate_v2).out == out);
    cr_expect(info.errorNode != info.errorFromNode);
}

Test(carried, resources_of_textures)
{
    Scene s;
    for (int i = 0; i < kTimes; i++) {
        Pair<CUDA_RESOURCE_DESC> p;
        CUDA_RESOURCE_DESC &c = p.client;
        randomize(c.res, c.flags);
        c.resType = static_cast<CUresourcetype>(dice() % 4);
        if (c.resType == CU_RESOURCE_TYPE_LINEAR)
            c.res.linear.devPtr = in_memory(), c.res.linear.sizeInBytes = dice() % 4096;
        if (c.resType == CU_RESOURCE_TYPE_PITCH2D) {
            c.res.pitch2D.devPtr = in_memory();
            c.res.pitch2D.pitchInBytes = dice() % 4096, c.res.pitch2D.height = dice() % 64;
        }
        p.driver = c;
        if (c.resType == CU_RESOURCE_TYPE_ARRAY)
            s.both(c.res.array.hArray, p.driver.res.array.hArray);
        if (c.resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY)
            s.both(c.res.mipmap.hMipmappedArray, p.driver.res.mipmap.hMipmappedArray);
        CUsurfObject surface{};
        const CUDA_RESOURCE_DESC *given = &c;
        cr_assert(remote<CallId::cuSurfObjectCreate>(&surface, given) == CUDA_SUCCESS);
        s.expect_arrived(CallId::cuSurfObjectCreate, p.driver);
        CUDA_RESOURCE_DESC got{};
        cr_assert(remote<CallId::cuSurfObjectGetResourceDesc>(&got, surface) == CUDA_SUCCESS);
        s.expect_same(CallId::cuSurfObjectGetResourceDesc, c, got);
    }
}

Test(carried, launches_that_are_asked_about)
{
    Scene s;
    for (int i = 0; i < kTimes; i++) {
        Pair<CUlaunchConfig> p;
        CUlaunchConfig &c = p.client;
        randomize(c.gridDimX, c.gridDimY, c.gridDimZ, c.blockDimX, c.blockDimY, c.blockDimZ,
                  c.sharedMemBytes);
        CUlaunchAttribute attributes[4]{};
        for (auto &a : attributes) a.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, randomize(a.value);
        c.attrs = attributes, c.numAttrs = static_cast<unsigned>(dice() % 5);
        p.driver = c;
        s.both(c.hStream, p.driver.hStream);
        int n = 0;
        const CUlaunchConfig *given = &c;
        cr_assert(remote<CallId::cuOccupancyMaxActiveClusters>(&n, s.function, given) ==
                  CUDA_SUCCESS);
        s.expect_arrived(CallId::cuOccupancyMaxActiveClusters, p.driver);
    }
}
