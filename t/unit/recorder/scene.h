// SPDX-License-Identifier: Apache-2.0
// Structs with handles and pointers in them, as a program gives them and as the driver must get
// them.
#pragma once

#include <array>

#include "interpose/stub/by_hand.h"
#include "t/unit/recorder/random_calls.h"

namespace rgpu::test {

using interpose::remote;
using recorder::deep;

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

inline bool contains(const Bytes &all, const Bytes &part)
{
    return !part.empty() &&
           std::search(all.begin(), all.end(), part.begin(), part.end()) != all.end();
}

// Objects that live on both sides, by kind.
class Scene {
public:
    explicit Scene(Wire &over) : wire(&over)
    {
        must(remote<CallId::cuGraphCreate>(&graph, 0u) == CUDA_SUCCESS);
        CUmodule module{};
        CUlibrary library{};
        namespace own = interpose::own;
        must(own::cuModuleLoadDataEx(&module, kImage, 0, nullptr, nullptr) == CUDA_SUCCESS);
        must(own::cuModuleGetFunction(&function, module, "recorded") == CUDA_SUCCESS);
        must(own::cuLibraryLoadData(&library, kImage, nullptr, nullptr, 0, nullptr, nullptr, 0) ==
             CUDA_SUCCESS);
        must(own::cuLibraryGetKernel(&kernel, library, "recorded") == CUDA_SUCCESS);
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
        must(wire->server().objects.get(interpose::Handles::get().id(client).value(), driver) ==
             CUDA_SUCCESS);
        return driver;
    }
    // The driver got the struct with the last call of this line.
    template <class P> void expect_arrived(CallId id, const P &driver)
    {
        must(wire->barrier() == CUDA_SUCCESS);
        must(contains(note_of(id).in, deep_of(driver)), calls::info(id).symbol.data());
    }
    template <class P> void expect_same(CallId id, const P &given, const P &got)
    {
        must(deep_of(given) == deep_of(got), calls::info(id).symbol.data());
    }

    Wire *wire;
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
inline CUdeviceptr in_memory() { return recorder::kMemory + dice() % (recorder::kMemoryBytes / 2); }

inline Pair<CUDA_MEMCPY3D> box(Scene &s)
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

// A kernel node is made, changed and asked about.
template <CallId Add, CallId Set, CallId Get, class P> void kernel_node_calls(Scene &s)
{
    CUgraphNode node{};
    auto p = kernel_node<P>(s);
    const P *given = &p.client;
    must(remote<Add>(&node, s.graph, static_cast<const CUgraphNode *>(nullptr), size_t{0}, given) ==
         CUDA_SUCCESS);
    s.expect_arrived(Add, p.driver);
    p = kernel_node<P>(s);
    must(remote<Set>(node, given) == CUDA_SUCCESS);
    s.expect_arrived(Set, p.driver);
    P got{};
    must(remote<Get>(node, &got) == CUDA_SUCCESS);
    s.expect_same(Get, p.client, got);
}

// Calls `add` with the parameters of a node of each type.
template <class Add> void nodes_of_every_type(Scene &s, Add &&add)
{
    auto typed = [](CUgraphNodeType type) {
        Pair<CUgraphNodeParams> p;
        p.client.type = p.driver.type = type;
        return p;
    };
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

}  // namespace rgpu::test
