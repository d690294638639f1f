// SPDX-License-Identifier: Apache-2.0
// Executable graphs: CUDA Driver API, "Graph Management", cuGraphInstantiate*, cuGraphLaunch,
// cuGraphExec*.
#include "softgpu/driver/api/export.h"
#include "softgpu/driver/graph/capture.h"
#include "softgpu/driver/graph/graph_exec.h"
#include "softgpu/driver/graph/node_work.h"
#include "softgpu/driver/state/current.h"
#include "softgpu/driver/state/driver.h"
#include "softgpu/driver/state/stream.h"

namespace rgpu::softgpu::driver {

namespace {

// Uploading prepares a launch, of which nothing is left to do here; priorities have no effect.
constexpr unsigned long long kKnownFlags = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
                                           CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
                                           CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;

CUresult instantiate(CUgraphExec *exec, CUgraph handle, unsigned long long flags)
{
    if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) return CUDA_ERROR_NOT_SUPPORTED;
    if (!exec || flags & ~kKnownFlags) return CUDA_ERROR_INVALID_VALUE;
    std::lock_guard lock(graph_lock());
    auto graph = driver().graphs.find(handle);
    if (!graph || graph->has_unused_condition()) return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<GraphExec> made;
    if (CUresult rc = GraphExec::create(*graph, flags, made)) return rc;
    *exec = driver().graph_execs.add(made);
    return CUDA_SUCCESS;
}

CUresult instantiate_with_params(CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *p)
{
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    p->hErrNode_out = nullptr;
    CUresult rc = instantiate(exec, graph, p->flags);
    std::lock_guard lock(graph_lock());
    const auto found = driver().graphs.find(graph);
    if (rc && found && found->has_unused_condition()) {
        p->result_out = CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED;
        return rc;
    }
    p->result_out = !rc ? CUDA_GRAPH_INSTANTIATE_SUCCESS
                    : rc == CUDA_ERROR_NOT_SUPPORTED
                        ? CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED
                        : CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE;
    return rc;
}

CUresult instantiate_with_log(CUgraphExec *exec, CUgraph graph, CUgraphNode *node, char *log,
                              size_t bytes)
{
    if (node) *node = nullptr;
    if (log && bytes) *log = 0;
    return instantiate(exec, graph, 0);
}

CUresult launch(CUgraphExec handle, CUstream stream)
{
    std::shared_ptr<Stream> s;
    if (CUresult rc = find_stream(stream, s)) return rc;
    bool captured = false;
    if (CUresult rc = capture_graph(*s, handle, captured); rc || captured) return rc;
    std::lock_guard lock(graph_lock());
    auto exec = driver().graph_execs.find(handle);
    return exec ? exec->launch(*s) : CUDA_ERROR_INVALID_VALUE;
}

CUresult upload(CUgraphExec handle, CUstream stream)
{
    std::shared_ptr<Stream> s;
    if (CUresult rc = find_stream(stream, s)) return rc;
    return driver().graph_execs.find(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// A launch that is under way goes on.
CUresult destroy(CUgraphExec handle)
{
    std::lock_guard lock(graph_lock());
    return driver().graph_execs.remove(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult get_flags(CUgraphExec handle, cuuint64_t *flags)
{
    auto exec = driver().graph_execs.find(handle);
    if (!exec || !flags) return CUDA_ERROR_INVALID_VALUE;
    *flags = exec->flags;
    return CUDA_SUCCESS;
}

// --- changing it

// Both under the lock: `change(exec, node)`.
template <class Change>
CUresult with(CUgraphExec exec_handle, CUgraphNode node_handle, Change change)
{
    std::lock_guard lock(graph_lock());
    auto exec = driver().graph_execs.find(exec_handle);
    auto node = driver().graph_nodes.find(node_handle);
    return exec && node ? change(*exec, *node) : CUDA_ERROR_INVALID_VALUE;
}

template <class... P> CUresult make_and_set(CUgraphExec exec, CUgraphNode node, P... p)
{
    return with(exec, node, [&](GraphExec &e, GraphNode &n) {
        WorkRef work;
        if (CUresult rc = make_work(p..., work)) return rc;
        return e.set_work(n, std::move(work));
    });
}

template <class Parameters> CUresult set(CUgraphExec exec, CUgraphNode node, const Parameters *p)
{
    return make_and_set(exec, node, p);
}

// cudart sets a kernel's attributes after its parameters: those of the node stay.
template <class Parameters>
CUresult set_kernel(CUgraphExec exec, CUgraphNode node, const Parameters *p)
{
    return with(exec, node, [&](GraphExec &e, GraphNode &n) {
        WorkRef work;
        if (CUresult rc = make_work(p, work)) return rc;
        const Work *old = e.work(n);
        const auto *before = old ? std::get_if<KernelWork>(old) : nullptr;
        if (before && before->launch.cooperative) {
            CUlaunchAttributeValue on{};
            on.cooperative = 1;
            if (CUresult rc = set_attribute(std::get<KernelWork>(*work),
                                            CU_LAUNCH_ATTRIBUTE_COOPERATIVE, on, work))
                return rc;
        }
        return e.set_work(n, std::move(work));
    });
}

template <class Parameters>
CUresult set_in_context(CUgraphExec exec, CUgraphNode node, const Parameters *p, CUcontext context)
{
    return make_and_set(exec, node, p, context);
}

template <CUresult (*make)(CUevent, WorkRef &)>
CUresult set_event(CUgraphExec exec, CUgraphNode node, CUevent event)
{
    return with(exec, node, [&](GraphExec &e, GraphNode &n) {
        WorkRef work;
        if (CUresult rc = make(event, work)) return rc;
        return e.set_work(n, std::move(work));
    });
}

CUresult set_child(CUgraphExec exec, CUgraphNode node, CUgraph handle)
{
    return with(exec, node, [&](GraphExec &e, GraphNode &n) {
        auto child = driver().graphs.find(handle);
        return child ? e.set_child(n, *child) : CUDA_ERROR_INVALID_VALUE;
    });
}

CUresult set_any(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *p)
{
    if (p && p->type == CU_GRAPH_NODE_TYPE_GRAPH) return set_child(exec, node, p->graph.graph);
    if (p && p->type == CU_GRAPH_NODE_TYPE_CONDITIONAL) return CUDA_ERROR_INVALID_VALUE;
    return set<CUgraphNodeParams>(exec, node, p);
}

CUresult set_enabled(CUgraphExec exec, CUgraphNode node, unsigned on)
{
    return with(exec, node, [&](GraphExec &e, GraphNode &n) { return e.set_enabled(n, on); });
}

CUresult get_enabled(CUgraphExec exec, CUgraphNode node, unsigned *on)
{
    return with(exec, node, [&](GraphExec &e, GraphNode &n) {
        bool enabled = false;
        if (!on) return CUDA_ERROR_INVALID_VALUE;
        if (CUresult rc = e.enabled(n, enabled)) return rc;
        *on = enabled;
        return CUDA_SUCCESS;
    });
}

CUresult update_v2(CUgraphExec exec_handle, CUgraph graph_handle, CUgraphExecUpdateResultInfo *info)
{
    std::lock_guard lock(graph_lock());
    auto exec = driver().graph_execs.find(exec_handle);
    auto graph = driver().graphs.find(graph_handle);
    if (!exec || !graph || !info) return CUDA_ERROR_INVALID_VALUE;
    return exec->update(*graph, *info);
}

CUresult update(CUgraphExec exec, CUgraph graph, CUgraphNode *node, CUgraphExecUpdateResult *result)
{
    CUgraphExecUpdateResultInfo info{};
    CUresult rc = update_v2(exec, graph, &info);
    if (node) *node = info.errorNode;
    if (result) *result = info.result;
    return rc;
}

RGPU_EXPORT(cuGraphInstantiate, instantiate_with_log)
RGPU_EXPORT(cuGraphInstantiate_v2, instantiate_with_log)
RGPU_EXPORT(cuGraphInstantiateWithFlags, instantiate)
RGPU_EXPORT_PTSZ(cuGraphInstantiateWithParams, instantiate_with_params)
RGPU_EXPORT_PTSZ(cuGraphLaunch, launch)
RGPU_EXPORT_PTSZ(cuGraphUpload, upload)
RGPU_EXPORT(cuGraphExecDestroy, destroy)
RGPU_EXPORT(cuGraphExecGetFlags, get_flags)
RGPU_EXPORT(cuGraphExecKernelNodeSetParams, set_kernel<CUDA_KERNEL_NODE_PARAMS_v1>)
RGPU_EXPORT(cuGraphExecKernelNodeSetParams_v2, set_kernel<CUDA_KERNEL_NODE_PARAMS_v2>)
RGPU_EXPORT(cuGraphExecMemcpyNodeSetParams, set_in_context<CUDA_MEMCPY3D>)
RGPU_EXPORT(cuGraphExecMemsetNodeSetParams, set_in_context<CUDA_MEMSET_NODE_PARAMS>)
RGPU_EXPORT(cuGraphExecHostNodeSetParams, set<CUDA_HOST_NODE_PARAMS>)
RGPU_EXPORT(cuGraphExecBatchMemOpNodeSetParams, set<CUDA_BATCH_MEM_OP_NODE_PARAMS>)
RGPU_EXPORT(cuGraphExecChildGraphNodeSetParams, set_child)
RGPU_EXPORT(cuGraphExecEventRecordNodeSetEvent, set_event<make_record>)
RGPU_EXPORT(cuGraphExecEventWaitNodeSetEvent, set_event<make_wait>)
RGPU_EXPORT(cuGraphExecNodeSetParams, set_any)
RGPU_EXPORT(cuGraphNodeSetEnabled, set_enabled)
RGPU_EXPORT(cuGraphNodeGetEnabled, get_enabled)
RGPU_EXPORT(cuGraphExecUpdate, update)
RGPU_EXPORT(cuGraphExecUpdate_v2, update_v2)

}  // namespace

}  // namespace rgpu::softgpu::driver
