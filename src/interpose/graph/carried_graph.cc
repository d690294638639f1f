// The parameters of the other graph nodes, and what graph calls tell of their outcome.
#include "interpose/graph/node_memory.h"
#include "interpose/stream/callback.h"
#include "interpose/stub/carried.h"
#include "interpose/stub/stub.h"

namespace rgpu::interpose {

// Host nodes. On the wire: the function's token.

CUresult Carried<CUDA_HOST_NODE_PARAMS>::encode(const CUDA_HOST_NODE_PARAMS &p,
                                                std::vector<uint8_t> &out)
{
    if (!p.fn) return CUDA_ERROR_INVALID_VALUE;
    Session *s = session();
    if (CUresult r = s ? may_call_back(*s) : not_ready()) return r;
    wire::Writer(out).value(graph_function(p.fn, p.userData));
    return CUDA_SUCCESS;
}

void Carried<CUDA_HOST_NODE_PARAMS>::decode(wire::Reader &r, CUDA_HOST_NODE_PARAMS &p, HandleId)
{
    p = {};
    find_graph_function(r.value<uint64_t>(), p.fn, p.userData);
}

// Memory allocation nodes. On the wire: pool properties, bytes, address, count of access
// descriptors, the descriptors.

CUresult Carried<CUDA_MEM_ALLOC_NODE_PARAMS>::encode(const CUDA_MEM_ALLOC_NODE_PARAMS &p,
                                                     std::vector<uint8_t> &out)
{
    if (p.accessDescCount && !p.accessDescs) return CUDA_ERROR_INVALID_VALUE;
    wire::Writer w(out);
    CUmemPoolProps props = p.poolProps;
    props.win32SecurityAttributes = nullptr;
    w.value(props), w.value(uint64_t{p.bytesize}), w.value(p.dptr),
        w.value(uint64_t{p.accessDescCount});
    w.bytes(p.accessDescs, p.accessDescCount * sizeof *p.accessDescs);
    return CUDA_SUCCESS;
}

void Carried<CUDA_MEM_ALLOC_NODE_PARAMS>::decode(wire::Reader &r, CUDA_MEM_ALLOC_NODE_PARAMS &p,
                                                 HandleId self)
{
    p.poolProps = r.value<CUmemPoolProps>();
    p.bytesize = r.value<uint64_t>();
    p.dptr = r.value<CUdeviceptr>();
    p.accessDescCount = r.count(sizeof *p.accessDescs);
    const uint8_t *descs = r.bytes(p.accessDescCount * sizeof *p.accessDescs);
    // A node that is being added keeps what the program gave.
    if (Handles::get().at(self)->kind.load() != HandleKind::graph_node || !descs) return;
    std::vector<uint8_t> bytes(descs, descs + p.accessDescCount * sizeof *p.accessDescs);
    p.accessDescs = p.accessDescCount
                        ? reinterpret_cast<CUmemAccessDesc *>(keep(self, std::move(bytes)))
                        : nullptr;
}

// Batches of memory operations. On the wire: number of the context, flags, count, the operations.

CUresult Carried<CUDA_BATCH_MEM_OP_NODE_PARAMS>::encode(const CUDA_BATCH_MEM_OP_NODE_PARAMS &p,
                                                        std::vector<uint8_t> &out)
{
    auto context = Handles::get().id(p.ctx);
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    if (p.count && !p.paramArray) return CUDA_ERROR_INVALID_VALUE;
    wire::Writer w(out);
    w.value(*context), w.value(p.flags), w.value(uint64_t{p.count});
    w.bytes(p.paramArray, p.count * sizeof *p.paramArray);
    return CUDA_SUCCESS;
}

void Carried<CUDA_BATCH_MEM_OP_NODE_PARAMS>::decode(wire::Reader &r,
                                                    CUDA_BATCH_MEM_OP_NODE_PARAMS &p, HandleId self)
{
    p = {};
    p.ctx = Handles::get().named<CUcontext>(r.value<HandleId>(), calls::kNoHandle);
    p.flags = r.value<unsigned>();
    p.count = static_cast<unsigned>(r.count(sizeof *p.paramArray));
    const uint8_t *operations = r.bytes(p.count * sizeof *p.paramArray);
    if (!operations) return;
    std::vector<uint8_t> bytes(operations, operations + p.count * sizeof *p.paramArray);
    p.paramArray = reinterpret_cast<CUstreamBatchMemOpParams *>(keep(self, std::move(bytes)));
}

// Any node. On the wire: its type, then that type's parameters as above (handles as numbers).
// Answer: the type and, of an allocation, the address.

namespace {

template <class T> CUresult number(T handle, std::vector<uint8_t> &out)
{
    auto id = Handles::get().id(handle);
    if (!id || !*id) return CUDA_ERROR_INVALID_HANDLE;
    wire::Writer(out).value(*id);
    return CUDA_SUCCESS;
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
        CUDA_MEMSET_NODE_PARAMS_v2 sent = p.memset;
        auto context = Handles::get().id(sent.ctx);
        if (!context) return CUDA_ERROR_INVALID_CONTEXT;
        sent.ctx = nullptr;
        w.value(*context), w.value(sent);
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
    default: return CUDA_ERROR_NOT_SUPPORTED;
    }
}

void Carried<CUgraphNodeParams>::decode(wire::Reader &r, CUgraphNodeParams &p, HandleId)
{
    const auto type = r.value<uint32_t>();
    if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) p.alloc.dptr = r.value<CUdeviceptr>();
}

// Outcomes.

void Carried<CUgraphExecUpdateResultInfo>::decode(wire::Reader &r, CUgraphExecUpdateResultInfo &p,
                                                  HandleId)
{
    p.result = r.value<CUgraphExecUpdateResult>();
    p.errorNode = detail::found<CUgraphNode>(r.value<HandleId>(), calls::kNoHandle);
    p.errorFromNode = detail::found<CUgraphNode>(r.value<HandleId>(), calls::kNoHandle);
}

CUresult Carried<CUDA_GRAPH_INSTANTIATE_PARAMS>::encode(const CUDA_GRAPH_INSTANTIATE_PARAMS &p,
                                                        std::vector<uint8_t> &out)
{
    HandleId stream = 0;
    if (CUresult r = detail::id_in(p.hUploadStream, stream)) return r;
    wire::Writer w(out);
    w.value(p.flags), w.value(stream);
    return CUDA_SUCCESS;
}

void Carried<CUDA_GRAPH_INSTANTIATE_PARAMS>::decode(wire::Reader &r,
                                                    CUDA_GRAPH_INSTANTIATE_PARAMS &p, HandleId)
{
    p.hErrNode_out = detail::found<CUgraphNode>(r.value<HandleId>(), calls::kNoHandle);
    p.result_out = r.value<CUgraphInstantiateResult>();
}

}  // namespace rgpu::interpose
