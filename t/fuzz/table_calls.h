// SPDX-License-Identifier: Apache-2.0
// Calls as our client sends them and our worker answers them, made from the table: each plain line
// several times with random arguments, and those that are written by hand. Mutations begin with
// these, and change what is inside.
#pragma once

#include <cstring>
#include <random>

#include "t/unit/recorder/hand_written.h"
#include "t/unit/recorder/scene.h"

extern "C" [[gnu::weak]] void __llvm_profile_reset_counters();

namespace rgpu::fuzz {

using test::Bytes;
using test::CallId;
using test::Exchange;

struct TableCalls {
    std::vector<Exchange> made;
    // The session's, after all of them.
    worker::Objects objects;
    worker::Addresses addresses;
    // Numbers of its objects.
    std::map<calls::HandleKind, std::vector<calls::HandleId>> numbers;
};

namespace detail {

inline constexpr int kTimes = 3;

inline void nodes(test::Scene &s)
{
    using interpose::remote;
    test::kernel_node_calls<CallId::cuGraphAddKernelNode_v2, CallId::cuGraphKernelNodeSetParams_v2,
                            CallId::cuGraphKernelNodeGetParams_v2, CUDA_KERNEL_NODE_PARAMS_v2>(s);
    test::kernel_node_calls<CallId::cuGraphAddKernelNode, CallId::cuGraphKernelNodeSetParams,
                            CallId::cuGraphKernelNodeGetParams, CUDA_KERNEL_NODE_PARAMS_v1>(s);
    const CUgraphNode *none = nullptr;
    CUgraphNode node{};
    const auto copy = test::box(s);
    CUDA_MEMCPY3D got_copy{};
    remote<CallId::cuGraphAddMemcpyNode>(&node, s.graph, none, size_t{0}, &copy.client,
                                         CUcontext{});
    remote<CallId::cuGraphMemcpyNodeSetParams>(node, &copy.client);
    remote<CallId::cuGraphMemcpyNodeGetParams>(node, &got_copy);
    const CUDA_HOST_NODE_PARAMS host{[](void *) {}, nullptr};
    CUDA_HOST_NODE_PARAMS got_host{};
    remote<CallId::cuGraphAddHostNode>(&node, s.graph, none, size_t{0}, &host);
    remote<CallId::cuGraphHostNodeSetParams>(node, &host);
    remote<CallId::cuGraphHostNodeGetParams>(node, &got_host);
    auto alloc = test::allocation<CUDA_MEM_ALLOC_NODE_PARAMS>(s);
    CUDA_MEM_ALLOC_NODE_PARAMS got_alloc{};
    remote<CallId::cuGraphAddMemAllocNode>(&node, s.graph, none, size_t{0}, &alloc.client);
    remote<CallId::cuGraphMemAllocNodeGetParams>(node, &got_alloc);
    const auto batch = test::batch<CUDA_BATCH_MEM_OP_NODE_PARAMS>(s);
    CUDA_BATCH_MEM_OP_NODE_PARAMS got_batch{};
    remote<CallId::cuGraphAddBatchMemOpNode>(&node, s.graph, none, size_t{0}, &batch.client);
    remote<CallId::cuGraphBatchMemOpNodeSetParams>(node, &batch.client);
    remote<CallId::cuGraphBatchMemOpNodeGetParams>(node, &got_batch);
    test::nodes_of_every_type(s, [&](const test::Pair<CUgraphNodeParams> &p) {
        CUgraphNodeParams params = p.client;
        remote<CallId::cuGraphAddNode_v2>(&node, s.graph, none,
                                          static_cast<const CUgraphEdgeData *>(nullptr), size_t{0},
                                          &params);
        remote<CallId::cuGraphNodeSetParams>(node, &params);
    });
}

inline void graphs(test::Scene &s)
{
    using interpose::remote;
    CUgraphExec exec{};
    test::Pair<CUDA_GRAPH_INSTANTIATE_PARAMS> how;
    s.both(how.client.hUploadStream, how.driver.hUploadStream);
    remote<CallId::cuGraphInstantiateWithParams>(&exec, s.graph, &how.client);
    CUgraphExecUpdateResultInfo info{};
    remote<CallId::cuGraphExecUpdate_v2>(exec, s.graph, &info);
    for (int type = CU_RESOURCE_TYPE_ARRAY; type <= CU_RESOURCE_TYPE_PITCH2D; type++) {
        test::Pair<CUDA_RESOURCE_DESC> p;
        p.client.resType = static_cast<CUresourcetype>(type);
        if (type == CU_RESOURCE_TYPE_ARRAY)
            s.both(p.client.res.array.hArray, p.driver.res.array.hArray);
        else if (type == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY)
            s.both(p.client.res.mipmap.hMipmappedArray, p.driver.res.mipmap.hMipmappedArray);
        else
            p.client.res.linear.devPtr = test::in_memory(), p.client.res.linear.sizeInBytes = 64;
        const CUDA_RESOURCE_DESC *given = &p.client;
        CUDA_RESOURCE_DESC got{};
        CUsurfObject surface{};
        remote<CallId::cuSurfObjectCreate>(&surface, given);
        remote<CallId::cuSurfObjectGetResourceDesc>(&got, surface);
        CUtexObject texture{};
        const CUDA_TEXTURE_DESC sampled{};
        remote<CallId::cuTexObjectCreate>(&texture, given, &sampled,
                                          static_cast<const CUDA_RESOURCE_VIEW_DESC *>(nullptr));
    }
    CUlaunchConfig launch{};
    CUlaunchAttribute attributes[2]{};
    for (CUlaunchAttribute &a : attributes) a.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    launch.attrs = attributes, launch.numAttrs = 2;
    int n = 0;
    const CUlaunchConfig *given = &launch;
    remote<CallId::cuOccupancyMaxActiveClusters>(&n, s.function, given);
}

}  // namespace detail

// Made at the first use, and the same in every run. `wire` stays.
inline TableCalls &table_calls(test::Wire *&wire)
{
    static TableCalls *const calls = [&] {
        test::use_recorder();
        wire = new test::Wire;
        auto *const c = new TableCalls;
        wire->use_few_handles();
        wire->keep(c->made);
        for (int i = 0; i < detail::kTimes; i++) {
            test::steady = i % 2;
            test::for_plain_rows([&]<CallId Id>() {
                using Row = test::RandomOf<Id>;
                Row::with(*wire, [&](auto client, auto, auto &arguments) {
                    if (Row::call(client) == CUDA_SUCCESS)
                        std::apply([](auto &...a) { (a.forget(), ...); }, arguments);
                    test::must(wire->barrier() == CUDA_SUCCESS);
                });
            });
        }
        test::steady = false;
        test::Scene scene(*wire);
        for (int i = 0; i < detail::kTimes; i++) detail::nodes(scene);
        detail::graphs(scene);
        test::hand_written_calls(*wire);
        // What ended is there again.
        test::for_plain_rows(
            [&]<CallId Id>() { test::RandomOf<Id>::with(*wire, [](auto, auto, auto &) {}); });
        test::must(wire->barrier() == CUDA_SUCCESS);
        c->objects = wire->server().objects;
        c->addresses = wire->server().addresses;
        c->numbers = wire->few_handles();
        // What asks whether all is done is there once, not behind each.
        bool first = true;
        std::erase_if(c->made, [&](const Exchange &e) {
            return e.call.header.type == static_cast<uint16_t>(CallId::cuMemGetInfo_v2) &&
                   !std::exchange(first, false);
        });
        // What inputs reach is what counts.
        if (__llvm_profile_reset_counters) __llvm_profile_reset_counters();
        return c;
    }();
    return *calls;
}

// Chance, as a mutation's seed has it.
class Chance {
public:
    explicit Chance(unsigned seed) : from_(seed) {}
    uint32_t operator()() { return static_cast<uint32_t>(from_()); }

private:
    std::minstd_rand from_;
};

// A number as attackers send them.
inline uint64_t odd_number(Chance &random)
{
    switch (random() % 6) {
    case 0: return random() % 64;  // a handle
    case 1: return recorder::kMemory + random() % 4096;
    case 2: return ~uint64_t{0} >> (random() % 64);
    case 3: return uint64_t{1} << (random() % 64);
    case 4: return calls::kFirstServerHandle + random() % 64;
    default: return random();
    }
}

// Writes one somewhere into these bytes.
inline void disturb(Bytes &body, Chance &random)
{
    const uint64_t number = odd_number(random);
    const size_t width = size_t{1} << (random() % 4);
    if (body.size() < width) return;
    memcpy(body.data() + random() % (body.size() - width + 1), &number, width);
}

}  // namespace rgpu::fuzz
