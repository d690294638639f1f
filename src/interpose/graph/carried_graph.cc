// SPDX-License-Identifier: Apache-2.0
// The parameters of the other graph nodes, and what graph calls tell of their outcome.
#include "interpose/graph/node_memory.h"
#include "interpose/stream/callback.h"
#include "interpose/stub/carried.h"
#include "interpose/stub/stub.h"
#include "wire/node_bodies.h"

namespace rgpu::interpose {

// Host nodes.

CUresult Carried<CUDA_HOST_NODE_PARAMS>::encode(const CUDA_HOST_NODE_PARAMS &p,
                                                std::vector<uint8_t> &out)
{
    if (!p.fn) return CUDA_ERROR_INVALID_VALUE;
    ServerSession *s = session();
    if (CUresult r = s ? may_call_back(*s) : not_ready()) return r;
    wire::Writer(out).value(wire::HostNode{graph_function(p.fn, p.userData)});
    return CUDA_SUCCESS;
}

void Carried<CUDA_HOST_NODE_PARAMS>::decode(wire::Reader &r, CUDA_HOST_NODE_PARAMS &p, HandleId)
{
    p = {};
    find_graph_function(r.value<wire::HostNode>().token, p.fn, p.userData);
}

// Memory allocation nodes.

CUresult Carried<CUDA_MEM_ALLOC_NODE_PARAMS>::encode(const CUDA_MEM_ALLOC_NODE_PARAMS &p,
                                                     std::vector<uint8_t> &out)
{
    if (p.accessDescCount && !p.accessDescs) return CUDA_ERROR_INVALID_VALUE;
    wire::Writer w(out);
    w.value(wire::AllocationNode::of(p));
    wire::write_list(w, p.accessDescs, p.accessDescCount);
    return CUDA_SUCCESS;
}

void Carried<CUDA_MEM_ALLOC_NODE_PARAMS>::decode(wire::Reader &r, CUDA_MEM_ALLOC_NODE_PARAMS &p,
                                                 HandleId self)
{
    r.value<wire::AllocationNode>().put_into(p);
    const auto descs = wire::read_list<CUmemAccessDesc>(r);
    p.accessDescCount = descs.count;
    // A node that is being added keeps what the program gave.
    if (Handles::get().at(self)->kind.load() != HandleKind::graph_node || !descs.first) return;
    std::vector<uint8_t> bytes(descs.first, descs.first + descs.bytes);
    p.accessDescs = p.accessDescCount
                        ? reinterpret_cast<CUmemAccessDesc *>(keep(self, std::move(bytes)))
                        : nullptr;
}

// Batches of memory operations.

CUresult Carried<CUDA_BATCH_MEM_OP_NODE_PARAMS>::encode(const CUDA_BATCH_MEM_OP_NODE_PARAMS &p,
                                                        std::vector<uint8_t> &out)
{
    auto context = Handles::get().id(p.ctx);
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    if (p.count && !p.paramArray) return CUDA_ERROR_INVALID_VALUE;
    wire::Writer w(out);
    w.value(wire::BatchNode{*context, p.flags});
    wire::write_list(w, p.paramArray, p.count);
    return CUDA_SUCCESS;
}

void Carried<CUDA_BATCH_MEM_OP_NODE_PARAMS>::decode(wire::Reader &r,
                                                    CUDA_BATCH_MEM_OP_NODE_PARAMS &p, HandleId self)
{
    p = {};
    const auto node = r.value<wire::BatchNode>();
    p.ctx = Handles::get().named<CUcontext>(node.context, calls::kNoHandle);
    p.flags = node.flags;
    const auto operations = wire::read_list<CUstreamBatchMemOpParams>(r);
    p.count = static_cast<unsigned>(operations.count);
    if (!operations.first) return;
    std::vector<uint8_t> bytes(operations.first, operations.first + operations.bytes);
    p.paramArray = reinterpret_cast<CUstreamBatchMemOpParams *>(keep(self, std::move(bytes)));
}

// Any node. On the wire: its type, then that type's parameters as above (handles as numbers).
// Answer: the type and, of an allocation, the address; of a conditional node, the list of its
// graphs' numbers.

namespace {

template <class T> CUresult number(T handle, std::vector<uint8_t> &out)
{
    auto id = Handles::get().id(handle);
    if (!id || !*id) return CUDA_ERROR_INVALID_HANDLE;
    wire::Writer(out).value(*id);
    return CUDA_SUCCESS;
}

CUgraph *keep_graphs(CUgraph owner, const std::vector<CUgraph> &graphs)
{
    std::vector<uint8_t> bytes(graphs.size() * sizeof(CUgraph));
    memcpy(bytes.data(), graphs.data(), bytes.size());
    const HandleId id = Handles::get().id(owner).value_or(calls::kNoHandle);
    return reinterpret_cast<CUgraph *>(keep(id, std::move(bytes)));
}

CUDA_MEM_ALLOC_NODE_PARAMS first_version(const CUDA_MEM_ALLOC_NODE_PARAMS_v2 &p)
{
    return {p.poolProps, p.accessDescs, p.accessDescCount, p.bytesize, p.dptr};
}

}  // namespace

CUresult Carried<CUgraphNodeParams>::encode(const CUgraphNodeParams &p, std::vector<uint8_t> &out)
{
    wire::Writer w(out);
    w.value(static_cast<uint32_t>(p.type));
    switch (p.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return Carried<CUDA_KERNEL_NODE_PARAMS_v3>::encode(p.kernel, out);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        if (p.memcpy.copyCtx)
            if (CUresult r = number(p.memcpy.copyCtx, out)) return r;
        if (!p.memcpy.copyCtx) w.value(calls::kNoHandle);
        return Carried<CUDA_MEMCPY3D>::encode(p.memcpy.copyParams, out);
    case CU_GRAPH_NODE_TYPE_MEMSET: {
        auto context = Handles::get().id(p.memset.ctx);
        if (!context) return CUDA_ERROR_INVALID_CONTEXT;
        wire::MemsetNode{*context, p.memset}.write(w);
        return CUDA_SUCCESS;
    }
    case CU_GRAPH_NODE_TYPE_HOST:
        return Carried<CUDA_HOST_NODE_PARAMS>::encode({p.host.fn, p.host.userData}, out);
    case CU_GRAPH_NODE_TYPE_GRAPH: return number(p.graph.graph, out);
    case CU_GRAPH_NODE_TYPE_EMPTY: return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT: return number(p.eventWait.event, out);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD: return number(p.eventRecord.event, out);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        return Carried<CUDA_MEM_ALLOC_NODE_PARAMS>::encode(first_version(p.alloc), out);
    case CU_GRAPH_NODE_TYPE_MEM_FREE: w.value(p.free.dptr); return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return Carried<CUDA_BATCH_MEM_OP_NODE_PARAMS>::encode(
            {p.memOp.ctx, p.memOp.count, p.memOp.paramArray, p.memOp.flags}, out);
    case CU_GRAPH_NODE_TYPE_CONDITIONAL: {
        const CUDA_CONDITIONAL_NODE_PARAMS &c = p.conditional;
        auto context = Handles::get().id(c.ctx);
        if (!context) return CUDA_ERROR_INVALID_CONTEXT;
        wire::ConditionalNode{*context, c.handle, static_cast<uint32_t>(c.type), c.size}.write(w);
        return CUDA_SUCCESS;
    }
    default: return CUDA_ERROR_NOT_SUPPORTED;
    }
}

void Carried<CUgraphNodeParams>::decode(wire::Reader &r, CUgraphNodeParams &p, HandleId self)
{
    const auto type = r.value<uint32_t>();
    if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) p.alloc.dptr = r.value<CUdeviceptr>();
    if (type != CU_GRAPH_NODE_TYPE_CONDITIONAL) return;
    const auto numbers = wire::read_list<HandleId>(r);
    std::vector<CUgraph> graphs;
    for (size_t i = 0; numbers.first && i < numbers.count; i++) {
        HandleId id;
        memcpy(&id, numbers.first + i * sizeof id, sizeof id);
        graphs.push_back(detail::found<CUgraph>(id, self));
    }
    p.conditional.phGraph_out = nullptr;
    if (!graphs.empty() && graphs.size() == p.conditional.size)
        p.conditional.phGraph_out = keep_graphs(graphs[0], graphs);
}

// Outcomes.

void Carried<CUgraphExecUpdateResultInfo>::decode(wire::Reader &r, CUgraphExecUpdateResultInfo &p,
                                                  HandleId)
{
    const auto a = r.value<wire::UpdateAnswer>();
    p.result = a.result;
    p.errorNode = detail::found<CUgraphNode>(a.node, calls::kNoHandle);
    p.errorFromNode = detail::found<CUgraphNode>(a.from_node, calls::kNoHandle);
}

CUresult Carried<CUDA_GRAPH_INSTANTIATE_PARAMS>::encode(const CUDA_GRAPH_INSTANTIATE_PARAMS &p,
                                                        std::vector<uint8_t> &out)
{
    HandleId stream = 0;
    if (CUresult r = detail::id_in(p.hUploadStream, stream)) return r;
    wire::Writer w(out);
    wire::Instantiation{p.flags, stream}.write(w);
    return CUDA_SUCCESS;
}

void Carried<CUDA_GRAPH_INSTANTIATE_PARAMS>::decode(wire::Reader &r,
                                                    CUDA_GRAPH_INSTANTIATE_PARAMS &p, HandleId)
{
    const auto a = r.value<wire::InstantiationAnswer>();
    p.hErrNode_out = detail::found<CUgraphNode>(a.node, calls::kNoHandle);
    p.result_out = a.result;
}

}  // namespace rgpu::interpose
