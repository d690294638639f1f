// SPDX-License-Identifier: Apache-2.0
#include "softgpu/driver/graph/node_work.h"

#include "softgpu/driver/graph/condition.h"
#include "softgpu/driver/graph/graph.h"
#include "softgpu/driver/graph/graph_memory.h"
#include "softgpu/driver/state/context.h"
#include "softgpu/driver/state/copy_parameters.h"
#include "softgpu/driver/state/current.h"
#include "softgpu/driver/state/driver.h"
#include "softgpu/driver/state/event.h"
#include "softgpu/driver/state/library.h"
#include "softgpu/driver/state/memory_op.h"

namespace rgpu::softgpu::driver {

namespace {

constexpr unsigned kMostBodies = 1024;  // of one conditional node

template <class W> WorkRef ref(W work) { return std::make_shared<const Work>(std::move(work)); }

// The context that a node names; null is the current one.
CUresult node_context(CUcontext handle, Context *&c)
{
    if (!handle) return usable_context(c);
    c = find_context(handle);
    return c ? c->usable() : CUDA_ERROR_INVALID_VALUE;
}

void finish(KernelWork &w)
{
    w.module = w.launch.function->module.weak_from_this();
    for (const Parameter &p : w.launch.function->kernel.parameters)
        w.arguments.push_back(w.launch.parameters.data() + p.offset);
}

template <class Parameters> CUresult make_kernel(const Parameters &p, KernelWork w, WorkRef &made)
{
    KernelLaunch &l = w.launch;
    l.grid = {p.gridDimX, p.gridDimY, p.gridDimZ};
    l.block = {p.blockDimX, p.blockDimY, p.blockDimZ};
    l.dynamic_shared = p.sharedMemBytes;
    if (CUresult rc = read_arguments(l.function->kernel, p.kernelParams, p.extra, l.parameters))
        return rc;
    if (CUresult rc = prepare(l)) return rc;
    finish(w);
    made = ref(std::move(w));
    return CUDA_SUCCESS;
}

CUmemorytype memory_type(Copy::End end)
{
    switch (end) {
    case Copy::End::host: return CU_MEMORYTYPE_HOST;
    case Copy::End::device: return CU_MEMORYTYPE_DEVICE;
    case Copy::End::array:  // it has an address, too
    case Copy::End::any: break;
    }
    return CU_MEMORYTYPE_UNIFIED;
}

}  // namespace

// --- making it

CUresult make_work(const CUDA_KERNEL_NODE_PARAMS_v1 *p, WorkRef &made)
{
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    KernelWork w;
    w.function = p->func;
    if (CUresult rc = find_function(p->func, w.launch.function)) return rc;
    return make_kernel(*p, std::move(w), made);
}

CUresult make_work(const CUDA_KERNEL_NODE_PARAMS_v2 *p, WorkRef &made)
{
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    KernelWork w;
    if (p->func) {
        w.function = p->func;
        if (CUresult rc = find_function(p->func, w.launch.function)) return rc;
        return make_kernel(*p, std::move(w), made);
    }
    auto kernel = driver().kernels.find(p->kern);
    if (!kernel) return CUDA_ERROR_INVALID_HANDLE;
    Context *c;
    if (CUresult rc = node_context(p->ctx, c)) return rc;
    if (CUresult rc = kernel->function(*c, w.launch.function)) return rc;
    return make_kernel(*p, std::move(w), made);
}

CUresult make_work(const CUDA_MEMCPY3D *p, CUcontext context, WorkRef &made)
{
    CopyWork w;
    if (CUresult rc = read_copy(p, w.copy)) return rc;
    if (CUresult rc = node_context(context, w.context)) return rc;
    if (CUresult rc = check(w.copy)) return rc;
    w.parameters = *p;
    made = ref(std::move(w));
    return CUDA_SUCCESS;
}

CUresult make_work(const CUDA_MEMSET_NODE_PARAMS *p, CUcontext context, WorkRef &made)
{
    if (!p || (p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4))
        return CUDA_ERROR_INVALID_VALUE;
    FillWork w;
    if (CUresult rc = node_context(context, w.context)) return rc;
    if (CUresult rc = check(fill_of(*p))) return rc;
    w.parameters = *p;
    made = ref(std::move(w));
    return CUDA_SUCCESS;
}

CUresult make_work(const CUDA_HOST_NODE_PARAMS *p, WorkRef &made)
{
    if (!p || !p->fn) return CUDA_ERROR_INVALID_VALUE;
    made = ref(HostWork{*p});
    return CUDA_SUCCESS;
}

CUresult make_wait(CUevent handle, WorkRef &made)
{
    auto event = driver().events.find(handle);
    if (!event) return CUDA_ERROR_INVALID_HANDLE;
    made = ref(WaitWork{std::move(event)});
    return CUDA_SUCCESS;
}

CUresult make_record(CUevent handle, WorkRef &made)
{
    auto event = driver().events.find(handle);
    if (!event) return CUDA_ERROR_INVALID_HANDLE;
    made = ref(RecordWork{std::move(event)});
    return CUDA_SUCCESS;
}

CUresult make_alloc(const CUDA_MEM_ALLOC_NODE_PARAMS *p, WorkRef &made)
{
    Context *c;
    if (CUresult rc = usable_context(c)) return rc;
    if (!p || !p->bytesize || p->poolProps.allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (p->poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        p->poolProps.handleTypes != CU_MEM_HANDLE_TYPE_NONE)
        return CUDA_ERROR_NOT_SUPPORTED;
    Device *device = find_device(p->poolProps.location.id);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    AllocWork w{GraphMemory::create(*device, p->bytesize), *p};
    if (!w.memory) return CUDA_ERROR_OUT_OF_MEMORY;
    w.parameters.dptr = w.memory->address;
    w.parameters.accessDescs = nullptr;  // every device reaches it
    w.parameters.accessDescCount = 0;
    made = ref(std::move(w));
    return CUDA_SUCCESS;
}

CUresult make_free(CUdeviceptr address, WorkRef &made)
{
    auto memory = find_graph_memory(address);
    if (!memory) return CUDA_ERROR_INVALID_VALUE;
    made = ref(FreeWork{std::move(memory)});
    return CUDA_SUCCESS;
}

CUresult make_work(const CUDA_BATCH_MEM_OP_NODE_PARAMS *p, WorkRef &made)
{
    if (!p || p->count > kMostMemoryOps || (p->count && !p->paramArray) || p->flags)
        return CUDA_ERROR_INVALID_VALUE;
    Context *c;
    if (CUresult rc = node_context(p->ctx, c)) return rc;
    MemoryOpWork w{c, {p->paramArray, p->paramArray + p->count}};
    for (const auto &o : w.operations)
        if (CUresult rc = check(o)) return rc;
    made = ref(std::move(w));
    return CUDA_SUCCESS;
}

CUresult make_work(const CUDA_CONDITIONAL_NODE_PARAMS *p, WorkRef &made)
{
    if (!p || !p->size || p->size > kMostBodies) return CUDA_ERROR_INVALID_VALUE;
    switch (p->type) {
    case CU_GRAPH_COND_TYPE_IF:
        if (p->size > 2) return CUDA_ERROR_INVALID_VALUE;
        break;
    case CU_GRAPH_COND_TYPE_WHILE:
        if (p->size > 1) return CUDA_ERROR_INVALID_VALUE;
        break;
    case CU_GRAPH_COND_TYPE_SWITCH: break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    Context *c;
    if (CUresult rc = node_context(p->ctx, c)) return rc;
    ConditionalWork w;
    w.condition = find_condition(p->handle);
    if (!w.condition || w.condition->used || &w.condition->context != c)
        return CUDA_ERROR_INVALID_VALUE;
    w.type = p->type;
    for (unsigned i = 0; i < p->size; i++) {
        w.graphs.push_back(std::make_shared<Graph>());
        w.graphs.back()->is_child = true;
        w.handles.push_back(w.graphs.back()->handle());
        publish(w.graphs.back());
    }
    made = ref(std::move(w));
    return CUDA_SUCCESS;
}

CUresult make_work(const CUgraphNodeParams *p, WorkRef &made)
{
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
        const CUDA_KERNEL_NODE_PARAMS_v3 &k = p->kernel;
        const CUDA_KERNEL_NODE_PARAMS_v2 same = {
            k.func,      k.gridDimX,       k.gridDimY,     k.gridDimZ, k.blockDimX, k.blockDimY,
            k.blockDimZ, k.sharedMemBytes, k.kernelParams, k.extra,    k.kern,      k.ctx};
        return make_work(&same, made);
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return make_work(&p->memcpy.copyParams, p->memcpy.copyCtx, made);
    case CU_GRAPH_NODE_TYPE_MEMSET: {
        const CUDA_MEMSET_NODE_PARAMS_v2 &m = p->memset;
        const CUDA_MEMSET_NODE_PARAMS same = {m.dst,         m.pitch, m.value,
                                              m.elementSize, m.width, m.height};
        return make_work(&same, m.ctx, made);
    }
    case CU_GRAPH_NODE_TYPE_HOST: {
        const CUDA_HOST_NODE_PARAMS same = {p->host.fn, p->host.userData};
        return make_work(&same, made);
    }
    case CU_GRAPH_NODE_TYPE_GRAPH: {
        auto child = driver().graphs.find(p->graph.graph);
        if (!child) return CUDA_ERROR_INVALID_VALUE;
        if (p->graph.ownership != CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE || child->has_conditional())
            return CUDA_ERROR_NOT_SUPPORTED;
        auto inner = child->clone();
        inner->is_child = true;
        made = ref(ChildWork{inner});
        publish(inner);
        return CUDA_SUCCESS;
    }
    case CU_GRAPH_NODE_TYPE_EMPTY: made = ref(EmptyWork{}); return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT: return make_wait(p->eventWait.event, made);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD: return make_record(p->eventRecord.event, made);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC: {
        const CUDA_MEM_ALLOC_NODE_PARAMS same = {p->alloc.poolProps, p->alloc.accessDescs,
                                                 p->alloc.accessDescCount, p->alloc.bytesize, 0};
        return make_alloc(&same, made);
    }
    case CU_GRAPH_NODE_TYPE_MEM_FREE: return make_free(p->free.dptr, made);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: {
        const CUDA_BATCH_MEM_OP_NODE_PARAMS same = {p->memOp.ctx, p->memOp.count,
                                                    p->memOp.paramArray, p->memOp.flags};
        return make_work(&same, made);
    }
    case CU_GRAPH_NODE_TYPE_CONDITIONAL: return make_work(&p->conditional, made);
    default: return CUDA_ERROR_NOT_SUPPORTED;
    }
}

WorkRef kernel_work(KernelLaunch launch, CUfunction as_named)
{
    KernelWork w;
    w.launch = std::move(launch);
    w.function = as_named;
    finish(w);
    return ref(std::move(w));
}

WorkRef copy_work(Context &context, const Copy &c)
{
    CopyWork w{&context, {}, c};
    CUDA_MEMCPY3D &p = w.parameters;
    p.WidthInBytes = c.width;
    p.Height = c.height;
    p.Depth = c.depth;
    p.srcMemoryType = memory_type(c.from.end);
    p.dstMemoryType = memory_type(c.to.end);
    p.srcDevice = c.from.address;
    p.dstDevice = c.to.address;
    p.srcHost = reinterpret_cast<const void *>(c.from.address);
    p.dstHost = reinterpret_cast<void *>(c.to.address);
    p.srcPitch = c.from.pitch ? c.from.pitch : c.width;
    p.dstPitch = c.to.pitch ? c.to.pitch : c.width;
    p.srcHeight = c.from.slice ? c.from.slice / p.srcPitch : c.height;
    p.dstHeight = c.to.slice ? c.to.slice / p.dstPitch : c.height;
    return ref(std::move(w));
}

WorkRef fill_work(Context &context, const Fill &f)
{
    return ref(FillWork{&context, {f.address, f.pitch, f.value, f.element, f.width, f.height}});
}

WorkRef memory_op_work(Context &context, std::vector<CUstreamBatchMemOpParams> operations)
{
    return ref(MemoryOpWork{&context, std::move(operations)});
}

// --- attributes of kernels

CUresult set_attribute(const KernelWork &old, CUlaunchAttributeID which,
                       const CUlaunchAttributeValue &value, WorkRef &made)
{
    KernelWork w = old;
    switch (which) {
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        w.launch.cooperative = value.cooperative;
        if (CUresult rc = prepare(w.launch)) return rc;
        break;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY: w.priority = value.priority; break;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
        if (value.clusterDim.x > 1 || value.clusterDim.y > 1 || value.clusterDim.z > 1)
            return CUDA_ERROR_NOT_SUPPORTED;
        break;
    default: break;  // hints
    }
    made = ref(std::move(w));
    return CUDA_SUCCESS;
}

CUresult get_attribute(const KernelWork &w, CUlaunchAttributeID which,
                       CUlaunchAttributeValue &value)
{
    value = {};
    switch (which) {
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        value.cooperative = w.launch.cooperative;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY: value.priority = w.priority; return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
}

// --- saying what it is

namespace {

template <class Parameters> void describe_kernel(const KernelWork &w, Parameters &p)
{
    p = {};
    p.func = w.function;
    p.gridDimX = w.launch.grid.x;
    p.gridDimY = w.launch.grid.y;
    p.gridDimZ = w.launch.grid.z;
    p.blockDimX = w.launch.block.x;
    p.blockDimY = w.launch.block.y;
    p.blockDimZ = w.launch.block.z;
    p.sharedMemBytes = w.launch.dynamic_shared;
    p.kernelParams = w.arguments.empty() ? nullptr : const_cast<void **>(w.arguments.data());
}

}  // namespace

void describe(const KernelWork &w, CUDA_KERNEL_NODE_PARAMS_v1 &p)
{
    describe_kernel(w, p);
    if (!p.func) p.func = w.launch.function->handle();  // this structure has nothing else
}

void describe(const KernelWork &w, CUDA_KERNEL_NODE_PARAMS_v2 &p)
{
    describe_kernel(w, p);
    // cudart knows kernels by this handle, whichever it passed.
    p.kern = w.launch.function->library_kernel;
    if (auto module = w.module.lock(); module && p.kern) p.ctx = module->context.handle();
}

void describe(const MemoryOpWork &w, CUDA_BATCH_MEM_OP_NODE_PARAMS &p)
{
    p = {};
    p.ctx = w.context->handle();
    p.count = static_cast<unsigned>(w.operations.size());
    p.paramArray = const_cast<CUstreamBatchMemOpParams *>(w.operations.data());
}

}  // namespace rgpu::softgpu::driver
