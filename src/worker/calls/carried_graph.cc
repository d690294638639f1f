// SPDX-License-Identifier: Apache-2.0
// Copies of boxes, the parameters of the other graph nodes, and what graph calls tell of their
// outcome.
#include "wire/node_bodies.h"
#include "worker/calls/carried.h"
#include "worker/calls/inspected.h"
#include "worker/driver/driver.h"
#include "worker/session/session.h"

namespace rgpu::worker {

namespace {

constexpr unsigned kMostBodies = 65536;  // of a conditional node, so that an answer holds them

// The array whose number stands in the field, and the way back.
CUresult array_in(Session &s, CUmemorytype type, CUarray &array)
{
    if (type == CU_MEMORYTYPE_ARRAY) return s.objects.get_in_place(array);
    array = nullptr;
    return CUDA_SUCCESS;
}

void array_out(Session &s, CUmemorytype type, CUarray &array)
{
    if (type == CU_MEMORYTYPE_ARRAY)
        s.objects.number_in_place(array);
    else
        array = nullptr;
}

// A client's box may name device memory and arrays, never the worker's own memory.
bool is_servers(CUmemorytype type)
{
    return type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_ARRAY;
}

template <class T>
CUresult handle_in(wire::Reader &r, Session &s, T &handle, bool may_be_null = false)
{
    const auto id = r.value<HandleId>();
    CUresult e = s.objects.get(id, handle);
    return e || handle || may_be_null ? e : calls::invalid_handle(calls::kHandleKind<T>);
}

// A list of a body, for as long as `memory`.
template <class T> T *list_in(const wire::List &list, CarriedMemory &memory)
{
    uint8_t *to = memory.take(list.bytes);
    if (list.bytes) memcpy(to, list.first, list.bytes);
    return reinterpret_cast<T *>(to);
}

// Memory of a graph has its address before the graph is launched, and other nodes may name it: a
// driver need not call it memory then.
template <class P> void note_graph_memory(Session &s, const P &p)
{
    s.addresses.give(p.dptr, p.bytesize, Addresses::Life::lasting);
}

}  // namespace

CUresult Carried<CUDA_MEMCPY3D>::decode(wire::Reader &r, Session &s, CUDA_MEMCPY3D &c,
                                        CarriedMemory &)
{
    c = r.value<CUDA_MEMCPY3D>();
    c.srcHost = c.dstHost = nullptr;
    c.reserved0 = c.reserved1 = nullptr;
    // Unified addresses of the client's are device addresses by now.
    if (c.srcMemoryType == CU_MEMORYTYPE_UNIFIED) c.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    if (c.dstMemoryType == CU_MEMORYTYPE_UNIFIED) c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    if (!is_servers(c.srcMemoryType) || !is_servers(c.dstMemoryType))
        return CUDA_ERROR_INVALID_VALUE;
    if (!s.addresses.has_box(c)) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult e = array_in(s, c.srcMemoryType, c.srcArray)) return e;
    return array_in(s, c.dstMemoryType, c.dstArray);
}

void Carried<CUDA_MEMCPY3D>::encode(wire::Writer &w, Session &s, const CUDA_MEMCPY3D &c)
{
    CUDA_MEMCPY3D sent = c;
    array_out(s, c.srcMemoryType, sent.srcArray);
    array_out(s, c.dstMemoryType, sent.dstArray);
    sent.srcHost = sent.dstHost = nullptr;
    w.value(sent);
}

CUresult Carried<CUDA_HOST_NODE_PARAMS>::decode(wire::Reader &r, Session &s,
                                                CUDA_HOST_NODE_PARAMS &p, CarriedMemory &)
{
    p.fn = Callbacks::graph_reached;
    p.userData = s.callbacks.graph_function(r.value<wire::HostNode>().token);
    return CUDA_SUCCESS;
}

void Carried<CUDA_HOST_NODE_PARAMS>::encode(wire::Writer &w, Session &,
                                            const CUDA_HOST_NODE_PARAMS &p)
{
    w.value(wire::HostNode{p.fn == Callbacks::graph_reached ? Callbacks::token_of(p.userData)
                                                            : uint64_t{0}});
}

CUresult Carried<CUDA_MEM_ALLOC_NODE_PARAMS>::decode(wire::Reader &r, Session &,
                                                     CUDA_MEM_ALLOC_NODE_PARAMS &p,
                                                     CarriedMemory &memory)
{
    r.value<wire::AllocationNode>().put_into(p);  // the driver writes the address
    const auto descs = wire::read_list<CUmemAccessDesc>(r);
    p.accessDescCount = descs.count;
    if (descs.count) p.accessDescs = list_in<CUmemAccessDesc>(descs, memory);
    return CUDA_SUCCESS;
}

void Carried<CUDA_MEM_ALLOC_NODE_PARAMS>::encode(wire::Writer &w, Session &s,
                                                 const CUDA_MEM_ALLOC_NODE_PARAMS &p)
{
    note_graph_memory(s, p);
    w.value(wire::AllocationNode::of(p));
    wire::write_list(w, p.accessDescs, p.accessDescCount);
}

CUresult Carried<CUDA_BATCH_MEM_OP_NODE_PARAMS>::decode(wire::Reader &r, Session &s,
                                                        CUDA_BATCH_MEM_OP_NODE_PARAMS &p,
                                                        CarriedMemory &memory)
{
    const auto node = r.value<wire::BatchNode>();
    CUresult e = s.objects.get(node.context, p.ctx);
    p.flags = node.flags;
    const auto operations = wire::read_list<CUstreamBatchMemOpParams>(r);
    p.paramArray = list_in<CUstreamBatchMemOpParams>(operations, memory);
    p.count = static_cast<unsigned>(operations.count);
    for (unsigned i = 0; i < p.count && !e; i++) e = inspect(s, p.paramArray[i]);
    return e;
}

void Carried<CUDA_BATCH_MEM_OP_NODE_PARAMS>::encode(wire::Writer &w, Session &s,
                                                    const CUDA_BATCH_MEM_OP_NODE_PARAMS &p)
{
    w.value(wire::BatchNode{s.objects.number(p.ctx), p.flags});
    wire::write_list(w, p.paramArray, p.count);
}

CUresult Carried<CUgraphNodeParams>::decode(wire::Reader &r, Session &s, CUgraphNodeParams &p,
                                            CarriedMemory &memory)
{
    p = {};
    p.type = static_cast<CUgraphNodeType>(r.value<uint32_t>());
    switch (p.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return Carried<CUDA_KERNEL_NODE_PARAMS_v3>::decode(r, s, p.kernel, memory);
    case CU_GRAPH_NODE_TYPE_MEMCPY: {
        CUresult e = handle_in(r, s, p.memcpy.copyCtx, true);
        CUresult box = Carried<CUDA_MEMCPY3D>::decode(r, s, p.memcpy.copyParams, memory);
        return e ? e : box;
    }
    case CU_GRAPH_NODE_TYPE_MEMSET: {
        const auto node = wire::MemsetNode::read(r);
        p.memset = node.memset;
        CUresult e = s.objects.get(node.context, p.memset.ctx);
        return e ? e : inspect(s, p.memset);
    }
    case CU_GRAPH_NODE_TYPE_HOST: {
        CUDA_HOST_NODE_PARAMS host{};
        CUresult e = Carried<CUDA_HOST_NODE_PARAMS>::decode(r, s, host, memory);
        p.host.fn = host.fn, p.host.userData = host.userData;
        return e;
    }
    case CU_GRAPH_NODE_TYPE_GRAPH: return handle_in(r, s, p.graph.graph);
    case CU_GRAPH_NODE_TYPE_EMPTY: return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT: return handle_in(r, s, p.eventWait.event);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD: return handle_in(r, s, p.eventRecord.event);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC: {
        CUDA_MEM_ALLOC_NODE_PARAMS alloc{};
        CUresult e = Carried<CUDA_MEM_ALLOC_NODE_PARAMS>::decode(r, s, alloc, memory);
        p.alloc = {alloc.poolProps, alloc.accessDescs, alloc.accessDescCount, alloc.bytesize,
                   alloc.dptr};
        return e;
    }
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        p.free.dptr = r.value<CUdeviceptr>();
        return s.addresses.has(p.free.dptr, 1) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: {
        CUDA_BATCH_MEM_OP_NODE_PARAMS batch{};
        CUresult e = Carried<CUDA_BATCH_MEM_OP_NODE_PARAMS>::decode(r, s, batch, memory);
        p.memOp.ctx = batch.ctx, p.memOp.count = batch.count;
        p.memOp.paramArray = batch.paramArray, p.memOp.flags = batch.flags;
        return e;
    }
    case CU_GRAPH_NODE_TYPE_CONDITIONAL: {
        CUDA_CONDITIONAL_NODE_PARAMS &c = p.conditional;
        const auto sent = wire::ConditionalNode::read(r);
        c.handle = sent.handle, c.size = sent.size;
        c.type = static_cast<CUgraphConditionalNodeType>(sent.type);
        if (CUresult e = s.objects.get(sent.context, c.ctx)) return e;
        return s.addresses.has(calls::Token::condition, c.handle) && c.size <= kMostBodies
                   ? CUDA_SUCCESS
                   : CUDA_ERROR_INVALID_VALUE;
    }
    default: return CUDA_ERROR_NOT_SUPPORTED;
    }
}

void Carried<CUgraphNodeParams>::encode(wire::Writer &w, Session &s, const CUgraphNodeParams &p)
{
    w.value(static_cast<uint32_t>(p.type));
    if (p.type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
        const CUDA_CONDITIONAL_NODE_PARAMS &c = p.conditional;
        std::vector<HandleId> numbers;
        for (unsigned i = 0; c.phGraph_out && i < c.size; i++)
            numbers.push_back(s.objects.number(c.phGraph_out[i]));
        wire::write_list(w, numbers.data(), numbers.size());
    }
    if (p.type != CU_GRAPH_NODE_TYPE_MEM_ALLOC) return;
    note_graph_memory(s, p.alloc);
    w.value(p.alloc.dptr);
}

void Carried<CUgraphExecUpdateResultInfo>::encode(wire::Writer &w, Session &s,
                                                  const CUgraphExecUpdateResultInfo &p)
{
    w.value(wire::UpdateAnswer{p.result, s.objects.number(p.errorNode),
                               s.objects.number(p.errorFromNode)});
}

CUresult Carried<CUDA_GRAPH_INSTANTIATE_PARAMS>::decode(wire::Reader &r, Session &s,
                                                        CUDA_GRAPH_INSTANTIATE_PARAMS &p,
                                                        CarriedMemory &)
{
    const auto asked = wire::Instantiation::read(r);
    p.flags = asked.flags;
    return s.objects.get(asked.stream, p.hUploadStream);
}

void Carried<CUDA_GRAPH_INSTANTIATE_PARAMS>::encode(wire::Writer &w, Session &s,
                                                    const CUDA_GRAPH_INSTANTIATE_PARAMS &p)
{
    w.value(wire::InstantiationAnswer{s.objects.number(p.hErrNode_out), p.result_out});
}

}  // namespace rgpu::worker
