// SPDX-License-Identifier: Apache-2.0
// Graphs' own memory: the allocation nodes of a graph, however they came there.
//
// NVIDIA's driver takes the memory when an executable graph is launched or uploaded, where nothing
// can be refused any more: it counts from the making of the executable graph on, and goes when that
// does.
#include <algorithm>

#include "worker/limits/memory_cap_front.h"

namespace rgpu::worker::capped {

namespace {

using Needs = GraphMemory::Needs;

bool any(const Needs &needs)
{
    return std::any_of(needs.begin(), needs.end(), [](uint64_t n) { return n > 0; });
}

// What the allocation nodes of a graph, and of the graphs in it, have in all.
void add_needs(CUgraph graph, Needs &needs)
{
    size_t count = 0;
    if (!graph || !REAL(cuGraphGetNodes) || REAL(cuGraphGetNodes)(graph, nullptr, &count)) return;
    std::vector<CUgraphNode> nodes(count);
    if (!count || REAL(cuGraphGetNodes)(graph, nodes.data(), &count)) return;
    for (CUgraphNode node : nodes) {
        CUgraphNodeType type{};
        CUgraph child = nullptr;
        CUDA_MEM_ALLOC_NODE_PARAMS p{};
        if (REAL(cuGraphNodeGetType)(node, &type)) continue;
        if (type == CU_GRAPH_NODE_TYPE_GRAPH && !REAL(cuGraphChildGraphNodeGetGraph)(node, &child))
            add_needs(child, needs);
        if (type != CU_GRAPH_NODE_TYPE_MEM_ALLOC || REAL(cuGraphMemAllocNodeGetParams)(node, &p))
            continue;
        if (the_cap().has(p.poolProps.location.id)) {
            uint64_t &need = needs[static_cast<size_t>(p.poolProps.location.id)];
            need = add(need, whole_pages(p.bytesize));
        }
    }
}

Needs needs_of(CUgraph graph)
{
    Needs needs = the_cap().graphs.none();
    add_needs(graph, needs);
    if (any(needs)) the_cap().graphs.seen();
    return needs;
}

void uncount(const Needs &needs)
{
    for (int d = 0; the_cap().has(d); d++) {
        the_cap().graphs.live_less(d, needs[static_cast<size_t>(d)]);
        the_cap().refresh(d);
    }
}

bool count(const Needs &needs)
{
    bool fits = true;
    for (int d = 0; the_cap().has(d); d++) {
        if (!needs[static_cast<size_t>(d)]) continue;
        the_cap().graphs.live_more(d, needs[static_cast<size_t>(d)]);
        if (the_cap().settle_graphs(d, false)) continue;
        // What the driver keeps of graphs that have gone goes now, if nothing uses it.
        if (REAL(cuDeviceGraphMemTrim)) REAL(cuDeviceGraphMemTrim)(d);
        the_cap().look(d);
        fits &= the_cap().used(d) <= the_cap().cap(d);
    }
    if (!fits) uncount(needs);
    return fits;
}

// The graph takes so much at most when it is launched.
CUresult with_needs(const Needs &needs, const MemoryCap::Call &call)
{
    if (any(needs) && !count(needs)) return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult r = call();
    if (r && any(needs)) uncount(needs);
    return r;
}

template <CallId Id> void count_made(Driver &driver)
{
    driver.replace<Id>([](CUgraphExec *made, CUgraph graph, auto... a) -> CUresult {
        Entry cap;
        const Needs needs = needs_of(graph);
        CUresult r = with_needs(needs, [&] {
            return the_cap().measured(
                the_cap().current_device(),
                [&] { return the_cap().real.call<Id>()(made, graph, a...); },
                [&] { return REAL(cuGraphExecDestroy)(*made); });
        });
        if (!r && any(needs)) cap->graphs.set(*made, needs);
        return r;
    });
}

// What an executable graph gets beyond what it has.
template <class Change> CUresult change(CUgraphExec exec, const Needs &wanted, Change call)
{
    const Needs had = the_cap().graphs.of(exec);
    Needs more = the_cap().graphs.none(), now = more;
    for (size_t d = 0; d < more.size(); d++) {
        now[d] = std::max(had[d], wanted[d]);
        more[d] = now[d] - had[d];
    }
    CUresult r = with_needs(more, call);
    if (!r && any(now)) the_cap().graphs.set(exec, now);
    return r;
}

template <CallId Id> void count_updated(Driver &driver)
{
    driver.replace<Id>([](CUgraphExec exec, CUgraph graph, auto... a) -> CUresult {
        Entry cap;
        return change(exec, needs_of(graph),
                      [&] { return the_cap().real.call<Id>()(exec, graph, a...); });
    });
}

// A graph in a graph: which of them it replaces nobody says.
CUresult change_child(CUgraphExec exec, CUgraph child, const MemoryCap::Call &call)
{
    Needs needs = needs_of(child);
    if (!any(needs)) return call();
    const Needs had = the_cap().graphs.of(exec);
    for (size_t d = 0; d < needs.size(); d++) needs[d] = add(needs[d], had[d]);
    return change(exec, needs, call);
}

CUresult set_child(CUgraphExec exec, CUgraphNode node, CUgraph child)
{
    Entry cap;
    return change_child(
        exec, child, [&] { return REAL(cuGraphExecChildGraphNodeSetParams)(exec, node, child); });
}

CUresult set_node(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *params)
{
    Entry cap;
    auto call = [&] { return REAL(cuGraphExecNodeSetParams)(exec, node, params); };
    if (!params || params->type != CU_GRAPH_NODE_TYPE_GRAPH) return call();
    return change_child(exec, params->graph.graph, call);
}

CUresult destroy(CUgraphExec exec)
{
    Entry cap;
    if (CUresult r = REAL(cuGraphExecDestroy)(exec)) return r;
    if (const Needs needs = cap->graphs.ended(exec); any(needs)) uncount(needs);
    return CUDA_SUCCESS;
}

// --- nodes

CUresult add_allocation(const CUmemPoolProps &props, uint64_t bytes, const MemoryCap::Call &call)
{
    const int device = props.location.id;
    the_cap().graphs.seen();
    if (the_cap().has(device) && bytes > the_cap().cap(device)) return CUDA_ERROR_OUT_OF_MEMORY;
    return the_cap().graphs.nodes_take_memory() ? the_cap().told(device, whole_pages(bytes), call)
                                                : call();
}

CUresult add_allocation_node(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                             size_t count, CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
    Entry cap;
    auto call = [&] { return REAL(cuGraphAddMemAllocNode)(node, graph, after, count, params); };
    return params ? add_allocation(params->poolProps, params->bytesize, call) : call();
}

template <CallId Id> void count_node(Driver &driver)
{
    driver.replace<Id>([](auto... a) -> CUresult {
        Entry cap;
        auto call = [&] { return the_cap().real.call<Id>()(a...); };
        const CUgraphNodeParams *params = std::get<sizeof...(a) - 1>(std::tuple(a...));
        if (!params || params->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC) return call();
        return add_allocation(params->alloc.poolProps, params->alloc.bytesize, call);
    });
}

// --- launches, whose first one brings code and what it needs

template <CallId Id> void measure_launch(Driver &driver)
{
    driver.replace<Id>([](CUgraphExec exec, CUstream stream) -> CUresult {
        auto call = [&] { return the_cap().real.call<Id>()(exec, stream); };
        bool first;
        if (!the_cap().is_strict()) return call();
        {
            Entry cap;
            first = cap->graphs.is_first_launch(exec);
            if (first) return cap->measured(cap->device_of(stream), call);
        }
        CUresult r = call();
        if (!the_cap().graphs.any()) return r;
        Entry cap;
        for (int d = 0; cap->has(d); d++) cap->refresh(d);
        return r;
    });
}

CUresult trim(CUdevice device)
{
    Entry cap;
    CUresult r = REAL(cuDeviceGraphMemTrim)(device);
    if (!r && cap->has(device)) cap->refresh(device);
    return r;
}

// Nodes end with their graph, which may be all that the software GPU's memory waited for.
template <CallId Id> void refresh_after(Driver &driver)
{
    driver.replace<Id>([](auto handle) -> CUresult {
        CUresult r = the_cap().real.call<Id>()(handle);
        if (!the_cap().graphs.any()) return r;
        Entry cap;
        for (int d = 0; cap->has(d); d++) cap->refresh(d);
        return r;
    });
}

}  // namespace

void put_graphs_in_front(Driver &driver)
{
    driver.replace<CallId::cuGraphAddMemAllocNode>(add_allocation_node);
    count_node<CallId::cuGraphAddNode>(driver);
    count_node<CallId::cuGraphAddNode_v2>(driver);
    refresh_after<CallId::cuGraphDestroyNode>(driver);
    refresh_after<CallId::cuGraphDestroy>(driver);

    count_made<CallId::cuGraphInstantiate>(driver);
    count_made<CallId::cuGraphInstantiate_v2>(driver);
    count_made<CallId::cuGraphInstantiateWithFlags>(driver);
    count_made<CallId::cuGraphInstantiateWithParams>(driver);
    count_made<CallId::cuGraphInstantiateWithParams_ptsz>(driver);
    count_updated<CallId::cuGraphExecUpdate>(driver);
    count_updated<CallId::cuGraphExecUpdate_v2>(driver);
    driver.replace<CallId::cuGraphExecChildGraphNodeSetParams>(set_child);
    driver.replace<CallId::cuGraphExecNodeSetParams>(set_node);
    driver.replace<CallId::cuGraphExecDestroy>(destroy);

    measure_launch<CallId::cuGraphLaunch>(driver);
    measure_launch<CallId::cuGraphLaunch_ptsz>(driver);
    measure_launch<CallId::cuGraphUpload>(driver);
    measure_launch<CallId::cuGraphUpload_ptsz>(driver);
    driver.replace<CallId::cuDeviceGraphMemTrim>(trim);
}

}  // namespace rgpu::worker::capped
