// SPDX-License-Identifier: Apache-2.0
// Graphs: what their calls need beyond the table's roles. Definitions live on the server; the
// client knows which handles belong to which graph, what launches need (launch_plan.h), and the
// user objects.
#include <fcntl.h>
#include <unistd.h>

#include "interpose/base/log.h"
#include "interpose/graph/kernel_updates.h"
#include "interpose/graph/launch_plan.h"
#include "interpose/graph/node_memory.h"
#include "interpose/graph/user_object.h"
#include "interpose/span/relay.h"
#include "interpose/state/ranges.h"
#include "interpose/stub/by_hand.h"
#include "interpose/stub/stub.h"
#include "util/fd.h"

namespace rgpu::interpose::own {

namespace {

HandleId number(CUgraph graph) { return Handles::get().id(graph).value_or(calls::kNoHandle); }
HandleId number(CUgraphExec exec) { return Handles::get().id(exec).value_or(calls::kNoHandle); }

// After a graph was instantiated, or an executable graph updated from it.
CUresult take_over(CUgraphExec exec, CUgraph graph)
{
    retain_objects_of(number(exec), number(graph));
    return plan_launches(exec, graph);
}

CUresult destroyed(CUgraphExec *exec, CUresult why)
{
    if (!why) return why;
    own::cuGraphExecDestroy(*exec);
    *exec = nullptr;
    return why;
}

// A framework gives the same kernels of a graph other arguments before each launch: the first time
// of each is asked, the others are posted.
template <CallId Id, class P> CUresult update_kernel(CUgraphExec exec, CUgraphNode node, const P *p)
{
    if (!p) return remote<Id>(exec, node, p);
    const HandleId exec_id = number(exec);
    const HandleId node_id = Handles::get().id(node).value_or(calls::kNoHandle);
    const KernelUpdate update(*p);
    if (will_take(exec_id, node_id, update)) return remote_posted<Id>(exec, node, p);
    CUresult r = remote<Id>(exec, node, p);
    if (!r) note_taken(exec_id, node_id, update);
    return r;
}

// The memory that an allocation node will give is known from now on.
void note_node_memory(CUresult r, CUdeviceptr base, size_t bytes)
{
    if (!r && base && !is_known_here(base)) note_graph_memory(base, bytes);
}

}  // namespace

CUresult cuGraphAddChildGraphNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                                  size_t count, CUgraph child)
{
    CUresult r = remote<CallId::cuGraphAddChildGraphNode>(node, graph, after, count, child);
    if (!r) retain_objects_of(number(graph), number(child));
    return r;
}

CUresult cuGraphClone(CUgraph *clone, CUgraph original)
{
    CUresult r = remote<CallId::cuGraphClone>(clone, original);
    if (!r) retain_objects_of(number(*clone), number(original));
    return r;
}

CUresult cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                                size_t count, CUDA_MEM_ALLOC_NODE_PARAMS *p)
{
    CUresult r = remote<CallId::cuGraphAddMemAllocNode>(node, graph, after, count, p);
    note_node_memory(r, p ? p->dptr : 0, p ? p->bytesize : 0);
    return r;
}

CUresult cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                           const CUgraphEdgeData *edges, size_t count, CUgraphNodeParams *p)
{
    CUresult r = remote<CallId::cuGraphAddNode_v2>(node, graph, after, edges, count, p);
    if (r || !p) return r;
    if (p->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
        note_node_memory(r, p->alloc.dptr, p->alloc.bytesize);
    if (p->type == CU_GRAPH_NODE_TYPE_GRAPH)
        retain_objects_of(number(graph), number(p->graph.graph));
    if (p->type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
        const CUgraph *bodies = p->conditional.phGraph_out;
        if (!bodies) return CUDA_ERROR_UNKNOWN;
        note_bodies(*node, {bodies, bodies + p->conditional.size});
    }
    return r;
}

CUresult cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                        CUgraphNodeParams *p)
{
    return own::cuGraphAddNode_v2(node, graph, after, nullptr, count, p);
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
    CUresult r = remote<CallId::cuGraphInstantiateWithFlags>(exec, graph, flags);
    return r ? r : destroyed(exec, take_over(*exec, graph));
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS *p)
{
    CUresult r = remote<CallId::cuGraphInstantiateWithParams>(exec, graph, p);
    return r ? r : destroyed(exec, take_over(*exec, graph));
}

CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec *exec, CUgraph graph,
                                           CUDA_GRAPH_INSTANTIATE_PARAMS *p)
{
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    CUDA_GRAPH_INSTANTIATE_PARAMS own = *p;
    if (!own.hUploadStream) own.hUploadStream = CU_STREAM_PER_THREAD;
    CUresult r = own::cuGraphInstantiateWithParams(exec, graph, &own);
    p->hErrNode_out = own.hErrNode_out, p->result_out = own.result_out;
    return r;
}

CUresult cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *error_node, char *log,
                               size_t log_bytes)
{
    if (error_node) *error_node = nullptr;
    if (log && log_bytes) *log = 0;
    return own::cuGraphInstantiateWithFlags(exec, graph, 0);
}

CUresult cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, CUgraphNode *error_node, char *log,
                            size_t log_bytes)
{
    return own::cuGraphInstantiate_v2(exec, graph, error_node, log, log_bytes);
}

CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info)
{
    forget_updates(number(exec));
    CUresult r = remote<CallId::cuGraphExecUpdate_v2>(exec, graph, info);
    return r ? r : take_over(exec, graph);
}

CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode *error_node,
                           CUgraphExecUpdateResult *result)
{
    if (!result) return CUDA_ERROR_INVALID_VALUE;
    CUgraphExecUpdateResultInfo info{};
    CUresult r = own::cuGraphExecUpdate_v2(exec, graph, &info);
    *result = info.result;
    if (error_node) *error_node = info.errorNode;
    return r;
}

CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_KERNEL_NODE_PARAMS_v1 *p)
{
    return update_kernel<CallId::cuGraphExecKernelNodeSetParams>(exec, node, p);
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                           const CUDA_KERNEL_NODE_PARAMS_v2 *p)
{
    return update_kernel<CallId::cuGraphExecKernelNodeSetParams_v2>(exec, node, p);
}

CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_MEMCPY3D *copy, CUcontext context)
{
    CUresult r = remote<CallId::cuGraphExecMemcpyNodeSetParams>(exec, node, copy, context);
    return r ? r : replan_copy(exec, node, copy);
}

CUresult cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                      const CUDA_HOST_NODE_PARAMS *host)
{
    CUresult r = remote<CallId::cuGraphExecHostNodeSetParams>(exec, node, host);
    return r ? r : replan_host(exec, node, host);
}

CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *p)
{
    CUresult r = remote<CallId::cuGraphExecNodeSetParams>(exec, node, p);
    if (r || !p) return r;
    if (p->type == CU_GRAPH_NODE_TYPE_MEMCPY) return replan_copy(exec, node, &p->memcpy.copyParams);
    const CUDA_HOST_NODE_PARAMS host{p->host.fn, p->host.userData};
    return p->type == CU_GRAPH_NODE_TYPE_HOST ? replan_host(exec, node, &host) : r;
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    if (session() && !is_here(number(exec))) return relay::graph_is_elsewhere(number(exec));
    CUresult r = launch_with_plan(exec, stream);
    if (!r) objects_in_use(number(exec), stream);
    return r;
}

CUresult cuGraphExecDestroy(CUgraphExec exec)
{
    const HandleId id = number(exec);
    CUresult r = remote<CallId::cuGraphExecDestroy>(exec);
    if (r) return r;
    forget_plan(id);
    forget_updates(id);
    release_objects_when_idle(id);
    return CUDA_SUCCESS;
}

CUresult cuGraphDestroyNode(CUgraphNode node)
{
    forget_all_updates();
    return remote<CallId::cuGraphDestroyNode>(node);
}

// Body: number of the graph, count and numbers of its nodes and inner graphs, which end with it.
CUresult cuGraphDestroy(CUgraph graph)
{
    if (!session()) return not_ready();
    const HandleId id = number(graph);
    if (!id) return CUDA_ERROR_INVALID_VALUE;
    // A graph inside a child graph node belongs to that node's graph.
    if (HandleId owner = owner_of(id);
        owner && Handles::get().at(owner)->kind.load() == HandleKind::graph)
        return CUDA_ERROR_INVALID_VALUE;
    const std::vector<HandleId> parts = take_parts(id);
    for (HandleId part : parts) release_node_memory(part), forget_bodies(part);
    forget_all_updates();
    CUresult r = session()->post(CallId::cuGraphDestroy, current_context(), [&](wire::Writer &w) {
        w.value(id), w.value(uint64_t{parts.size()});
        w.bytes(parts.data(), parts.size() * sizeof(HandleId));
    });
    end_parts(parts);
    if (r) return r;
    Handles::get().end(id);
    release_objects(id);
    return CUDA_SUCCESS;
}

// Body: number of the graph, flags. Answer: the text of the file, which is written here.
CUresult cuGraphDebugDotPrint(CUgraph graph, const char *path, unsigned int flags)
{
    if (!session()) return not_ready();
    const HandleId id = number(graph);
    if (!id) return CUDA_ERROR_INVALID_VALUE;
    if (!path) return CUDA_ERROR_INVALID_VALUE;
    Reply reply;
    CUresult r = session()->ask(
        CallId::cuGraphDebugDotPrint, current_context(),
        [&](wire::Writer &w) { w.value(id), w.value(flags); }, reply);
    if (r) return r;
    Fd file(open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    const auto bytes = static_cast<ssize_t>(reply.body.size());
    if (file.get() >= 0 && write(file.get(), reply.body.data(), reply.body.size()) == bytes)
        return CUDA_SUCCESS;
    say("cuGraphDebugDotPrint: cannot write %s", path);
    return CUDA_ERROR_OPERATING_SYSTEM;
}

}  // namespace rgpu::interpose::own
