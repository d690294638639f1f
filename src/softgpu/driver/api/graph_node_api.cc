// SPDX-License-Identifier: Apache-2.0
// What the nodes of graphs do: CUDA Driver API, "Graph Management", cuGraphAdd*Node and their
// parameters.
#include "softgpu/driver/api/export.h"
#include "softgpu/driver/graph/condition.h"
#include "softgpu/driver/graph/graph.h"
#include "softgpu/driver/graph/graph_exec.h"
#include "softgpu/driver/graph/node_work.h"
#include "softgpu/driver/state/context.h"
#include "softgpu/driver/state/driver.h"
#include "softgpu/driver/state/event.h"

namespace rgpu::softgpu::driver {

namespace {

// `p` describes the work, with whatever make_work() also needs.
template <class... P> CUresult make_and_add(CUgraphNode *node, CUgraph graph,
                                            const CUgraphNode *after, size_t count, P... p)
{
    std::lock_guard lock(graph_lock());
    WorkRef work;
    if (CUresult rc = make_work(p..., work)) return rc;
    CUresult rc = add_graph_node(node, graph, after, count, work);
    if (rc)
        for (const auto &inner : graphs_in(*work)) withdraw(*inner);
    return rc;
}

template <class Parameters> CUresult add_described(CUgraphNode *node, CUgraph graph,
                                                   const CUgraphNode *after, size_t count,
                                                   const Parameters *p)
{
    return make_and_add(node, graph, after, count, p);
}

CUresult add_copy(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                  const CUDA_MEMCPY3D *p, CUcontext context)
{
    return make_and_add(node, graph, after, count, p, context);
}

CUresult add_fill(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                  const CUDA_MEMSET_NODE_PARAMS *p, CUcontext context)
{
    return make_and_add(node, graph, after, count, p, context);
}

CUresult add_host(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                  const CUDA_HOST_NODE_PARAMS *p)
{
    return make_and_add(node, graph, after, count, p);
}

CUresult add_any(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                 CUgraphNodeParams *p)
{
    if (CUresult rc =
            make_and_add(node, graph, after, count, static_cast<const CUgraphNodeParams *>(p)))
        return rc;
    if (p->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
        std::lock_guard lock(graph_lock());
        p->alloc.dptr =
            std::get<AllocWork>(*driver().graph_nodes.find(*node)->work).parameters.dptr;
    }
    // CUDA: the caller gets the graphs that the node owns.
    std::lock_guard lock(graph_lock());
    const NodeRef made = driver().graph_nodes.find(*node);
    if (const auto *child = std::get_if<ChildWork>(made->work.get()))
        p->graph.graph = child->graph->handle();
    if (const auto *c = std::get_if<ConditionalWork>(made->work.get())) {
        c->condition->used = true;
        p->conditional.phGraph_out = const_cast<CUgraph *>(c->handles.data());
    }
    return CUDA_SUCCESS;
}

CUresult add_any_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                    const CUgraphEdgeData *, size_t count, CUgraphNodeParams *p)
{
    return add_any(node, graph, after, count, p);
}

CUresult add_child(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                   CUgraph child)
{
    CUgraphNodeParams p{};
    p.type = CU_GRAPH_NODE_TYPE_GRAPH;
    p.graph.graph = child;
    return add_any(node, graph, after, count, &p);
}

CUresult add_empty(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count)
{
    CUgraphNodeParams p{};
    p.type = CU_GRAPH_NODE_TYPE_EMPTY;
    return add_any(node, graph, after, count, &p);
}

CUresult add_record(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                    CUevent event)
{
    CUgraphNodeParams p{};
    p.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD;
    p.eventRecord.event = event;
    return add_any(node, graph, after, count, &p);
}

CUresult add_wait(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                  CUevent event)
{
    CUgraphNodeParams p{};
    p.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT;
    p.eventWait.event = event;
    return add_any(node, graph, after, count, &p);
}

CUresult create_condition(CUgraphConditionalHandle *handle, CUgraph graph_handle,
                          CUcontext context_handle, unsigned initial, unsigned flags)
{
    std::lock_guard lock(graph_lock());
    auto graph = driver().graphs.find(graph_handle);
    if (!handle || !graph || flags & ~unsigned{CU_GRAPH_COND_ASSIGN_DEFAULT})
        return CUDA_ERROR_INVALID_VALUE;
    Context *c = nullptr;
    if (!context_handle) {
        if (CUresult rc = usable_context(c)) return rc;
    } else if (!(c = find_context(context_handle))) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    auto made = Condition::create(*c, initial, flags & CU_GRAPH_COND_ASSIGN_DEFAULT);
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    *handle = made->handle;
    graph->conditions.push_back(std::move(made));
    return CUDA_SUCCESS;
}

// --- reading and changing

// The node's work, if it is of this kind.
template <class W> const W *find_work(CUgraphNode handle, NodeRef &node)
{
    node = driver().graph_nodes.find(handle);
    return node ? std::get_if<W>(node->work.get()) : nullptr;
}

// What the program is shown lies in the work.
template <class W, class Parameters> CUresult show(CUgraphNode handle, Parameters *p)
{
    std::lock_guard lock(graph_lock());
    NodeRef node;
    const auto *w = find_work<W>(handle, node);
    if (!w || !p) return CUDA_ERROR_INVALID_VALUE;
    if (node->shown.empty() || node->shown.back() != node->work) node->shown.push_back(node->work);
    describe(*w, *p);
    return CUDA_SUCCESS;
}

template <class W> CUresult get(CUgraphNode handle, decltype(W::parameters) *p)
{
    std::lock_guard lock(graph_lock());
    NodeRef node;
    const W *w = find_work<W>(handle, node);
    if (!w || !p) return CUDA_ERROR_INVALID_VALUE;
    *p = w->parameters;
    return CUDA_SUCCESS;
}

CUresult get_child(CUgraphNode handle, CUgraph *graph)
{
    std::lock_guard lock(graph_lock());
    NodeRef node;
    const auto *w = find_work<ChildWork>(handle, node);
    if (!w || !graph) return CUDA_ERROR_INVALID_VALUE;
    *graph = w->graph->handle();
    return CUDA_SUCCESS;
}

template <class W> CUresult get_event(CUgraphNode handle, CUevent *event)
{
    std::lock_guard lock(graph_lock());
    NodeRef node;
    const W *w = find_work<W>(handle, node);
    if (!w || !event) return CUDA_ERROR_INVALID_VALUE;
    *event = reinterpret_cast<CUevent>(w->event.get());
    return CUDA_SUCCESS;
}

CUresult replace(CUgraphNode handle, WorkRef work)
{
    auto node = driver().graph_nodes.find(handle);
    if (!node || node->work->index() != work->index()) return CUDA_ERROR_INVALID_VALUE;
    node->work = std::move(work);
    return CUDA_SUCCESS;
}

// Work that is made with the context of what it takes the place of.
Context *context_of(const Work &w)
{
    if (const auto *c = std::get_if<CopyWork>(&w)) return c->context;
    if (const auto *f = std::get_if<FillWork>(&w)) return f->context;
    return nullptr;
}

template <class Parameters> CUresult set(CUgraphNode handle, const Parameters *p)
{
    std::lock_guard lock(graph_lock());
    WorkRef work;
    if (CUresult rc = make_work(p, work)) return rc;
    return replace(handle, std::move(work));
}

template <class Parameters> CUresult set_in_context(CUgraphNode handle, const Parameters *p)
{
    std::lock_guard lock(graph_lock());
    auto node = driver().graph_nodes.find(handle);
    Context *c = node ? context_of(*node->work) : nullptr;
    if (!c) return CUDA_ERROR_INVALID_VALUE;
    WorkRef work;
    if (CUresult rc = make_work(p, c->handle(), work)) return rc;
    return replace(handle, std::move(work));
}

CUresult set_any(CUgraphNode handle, CUgraphNodeParams *p)
{
    // CUDA: the graphs of a node cannot be replaced in this way.
    if (p && (p->type == CU_GRAPH_NODE_TYPE_GRAPH || p->type == CU_GRAPH_NODE_TYPE_CONDITIONAL))
        return CUDA_ERROR_INVALID_VALUE;
    return set<CUgraphNodeParams>(handle, p);
}

template <CUresult (*make)(CUevent, WorkRef &)>
CUresult set_event(CUgraphNode handle, CUevent event)
{
    std::lock_guard lock(graph_lock());
    WorkRef work;
    if (CUresult rc = make(event, work)) return rc;
    return replace(handle, std::move(work));
}

CUresult copy_attributes(CUgraphNode to, CUgraphNode from)
{
    std::lock_guard lock(graph_lock());
    NodeRef a, b;
    const auto *target = find_work<KernelWork>(to, a), *source = find_work<KernelWork>(from, b);
    if (!target || !source) return CUDA_ERROR_INVALID_VALUE;
    KernelWork w = *target;
    w.launch.cooperative = source->launch.cooperative;
    w.priority = source->priority;
    a->work = std::make_shared<const Work>(std::move(w));
    return CUDA_SUCCESS;
}

CUresult get_kernel_attribute(CUgraphNode handle, CUkernelNodeAttrID which,
                              CUkernelNodeAttrValue *value)
{
    std::lock_guard lock(graph_lock());
    NodeRef node;
    const auto *w = find_work<KernelWork>(handle, node);
    return w && value ? get_attribute(*w, which, *value) : CUDA_ERROR_INVALID_VALUE;
}

CUresult set_kernel_attribute(CUgraphNode handle, CUkernelNodeAttrID which,
                              const CUkernelNodeAttrValue *value)
{
    std::lock_guard lock(graph_lock());
    NodeRef node;
    const auto *w = find_work<KernelWork>(handle, node);
    if (!w || !value) return CUDA_ERROR_INVALID_VALUE;
    WorkRef made;
    if (CUresult rc = set_attribute(*w, which, *value, made)) return rc;
    node->work = std::move(made);
    return CUDA_SUCCESS;
}

RGPU_EXPORT(cuGraphAddKernelNode, add_described<CUDA_KERNEL_NODE_PARAMS_v1>)
RGPU_EXPORT(cuGraphAddKernelNode_v2, add_described<CUDA_KERNEL_NODE_PARAMS_v2>)
RGPU_EXPORT(cuGraphAddMemcpyNode, add_copy)
RGPU_EXPORT(cuGraphAddMemsetNode, add_fill)
RGPU_EXPORT(cuGraphAddHostNode, add_host)
RGPU_EXPORT(cuGraphAddChildGraphNode, add_child)
RGPU_EXPORT(cuGraphAddEmptyNode, add_empty)
RGPU_EXPORT(cuGraphAddEventRecordNode, add_record)
RGPU_EXPORT(cuGraphAddEventWaitNode, add_wait)
RGPU_EXPORT(cuGraphAddNode, add_any)
RGPU_EXPORT(cuGraphAddNode_v2, add_any_v2)
RGPU_EXPORT(cuGraphConditionalHandleCreate, create_condition)
// A comma would end the macro's argument.
constexpr auto get_kernel_v1 = show<KernelWork, CUDA_KERNEL_NODE_PARAMS_v1>;
constexpr auto get_kernel_v2 = show<KernelWork, CUDA_KERNEL_NODE_PARAMS_v2>;
constexpr auto get_memory_op = show<MemoryOpWork, CUDA_BATCH_MEM_OP_NODE_PARAMS>;
RGPU_EXPORT(cuGraphKernelNodeGetParams, get_kernel_v1)
RGPU_EXPORT(cuGraphKernelNodeGetParams_v2, get_kernel_v2)
RGPU_EXPORT(cuGraphAddBatchMemOpNode, add_described<CUDA_BATCH_MEM_OP_NODE_PARAMS>)
RGPU_EXPORT(cuGraphBatchMemOpNodeGetParams, get_memory_op)
RGPU_EXPORT(cuGraphBatchMemOpNodeSetParams, set<CUDA_BATCH_MEM_OP_NODE_PARAMS>)
RGPU_EXPORT(cuGraphMemcpyNodeGetParams, get<CopyWork>)
RGPU_EXPORT(cuGraphMemsetNodeGetParams, get<FillWork>)
RGPU_EXPORT(cuGraphHostNodeGetParams, get<HostWork>)
RGPU_EXPORT(cuGraphChildGraphNodeGetGraph, get_child)
RGPU_EXPORT(cuGraphEventRecordNodeGetEvent, get_event<RecordWork>)
RGPU_EXPORT(cuGraphEventWaitNodeGetEvent, get_event<WaitWork>)
RGPU_EXPORT(cuGraphKernelNodeSetParams, set<CUDA_KERNEL_NODE_PARAMS_v1>)
RGPU_EXPORT(cuGraphKernelNodeSetParams_v2, set<CUDA_KERNEL_NODE_PARAMS_v2>)
RGPU_EXPORT(cuGraphMemcpyNodeSetParams, set_in_context<CUDA_MEMCPY3D>)
RGPU_EXPORT(cuGraphMemsetNodeSetParams, set_in_context<CUDA_MEMSET_NODE_PARAMS>)
RGPU_EXPORT(cuGraphHostNodeSetParams, set<CUDA_HOST_NODE_PARAMS>)
RGPU_EXPORT(cuGraphEventRecordNodeSetEvent, set_event<make_record>)
RGPU_EXPORT(cuGraphEventWaitNodeSetEvent, set_event<make_wait>)
RGPU_EXPORT(cuGraphNodeSetParams, set_any)
RGPU_EXPORT(cuGraphKernelNodeCopyAttributes, copy_attributes)
RGPU_EXPORT(cuGraphKernelNodeGetAttribute, get_kernel_attribute)
RGPU_EXPORT(cuGraphKernelNodeSetAttribute, set_kernel_attribute)

}  // namespace

}  // namespace rgpu::softgpu::driver
