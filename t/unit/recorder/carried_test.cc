// SPDX-License-Identifier: Apache-2.0
// Structs that hold handles or pointers go over the wire and come back: the driver gets every field
// and all that they point to, with its own handles; who asks for one gets what the program gave.
#include <criterion/criterion.h>
#include <unistd.h>

#include "t/unit/recorder/scene.h"

using namespace rgpu;
using namespace rgpu::test;

namespace {

constexpr unsigned kLimit = 120;  // seconds: a test that hangs ends here
constexpr int kTimes = 50;
// Its threads never end.
Wire &ready_wire()
{
    alarm(kLimit);
    use_recorder();
    return *new Wire;
}

}  // namespace

Test(carried, kernel_nodes_of_both_versions)
{
    Scene s(ready_wire());
    for (int i = 0; i < kTimes; i++) {
        kernel_node_calls<CallId::cuGraphAddKernelNode_v2, CallId::cuGraphKernelNodeSetParams_v2,
                          CallId::cuGraphKernelNodeGetParams_v2, CUDA_KERNEL_NODE_PARAMS_v2>(s);
        kernel_node_calls<CallId::cuGraphAddKernelNode, CallId::cuGraphKernelNodeSetParams,
                          CallId::cuGraphKernelNodeGetParams, CUDA_KERNEL_NODE_PARAMS_v1>(s);
    }
}

Test(carried, copy_nodes)
{
    Scene s(ready_wire());
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
    Scene s(ready_wire());
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
    Scene s(ready_wire());
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
    Scene s(ready_wire());
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
    Scene s(ready_wire());
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
    for (int i = 0; i < kTimes; i++) nodes_of_every_type(s, add);
}

Test(carried, outcomes)
{
    Scene s(ready_wire());
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
    Scene s(ready_wire());
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
    Scene s(ready_wire());
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
