// SPDX-License-Identifier: Apache-2.0
// Structs with handles or pointers in them, as the recording driver notes them: every field that
// counts for the struct's kind, and all that it points to, one after the other.
//
// deep(bytes, struct) writes that; keep(struct, blocks) moves what the struct points to into blocks
// of the caller's.
#pragma once

#include <cstdint>
#include <cstring>
#include <list>
#include <vector>

#include "calls/cuda_api.h"

namespace rgpu::recorder {

using Bytes = std::vector<uint8_t>;
using Blocks = std::list<Bytes>;

// Of every kernel: 8 bytes each.
inline constexpr size_t kParameters = 3;

inline void add(Bytes &to, const void *data, size_t n)
{
    const size_t at = to.size();
    to.resize(at + n);
    if (n) memcpy(to.data() + at, data, n);
}
template <class T> void add(Bytes &to, const T &value) { add(to, &value, sizeof value); }
template <class... T> void add_all(Bytes &to, const T &...values) { (add(to, values), ...); }

template <class T> T *keep_array(const T *from, size_t n, Blocks &blocks)
{
    Bytes &b = blocks.emplace_back();
    b.reserve(1);
    add(b, from, n * sizeof *from);
    return reinterpret_cast<T *>(b.data());
}

// The values of a kernel's parameters, from either form.
inline Bytes parameters(void **params, void **extra)
{
    Bytes values;
    for (size_t i = 0; params && i < kParameters; i++) add(values, params[i], sizeof(uint64_t));
    if (!params && extra) add(values, extra[1], *static_cast<size_t *>(extra[3]));
    return values;
}

template <class P>
concept KernelNode = requires(P p)
{
    p.kernelParams;
    p.blockDimX;
};

template <KernelNode P> void deep(Bytes &to, const P &p)
{
    add_all(to, p.func, p.gridDimX, p.gridDimY, p.gridDimZ, p.blockDimX, p.blockDimY, p.blockDimZ,
            p.sharedMemBytes);
    if constexpr (requires { p.kern; }) add_all(to, p.kern, p.ctx);
    const Bytes values = parameters(p.kernelParams, p.extra);
    add(to, values.data(), values.size());
}
template <KernelNode P> void keep(P &p, Blocks &blocks)
{
    const Bytes values = parameters(p.kernelParams, p.extra);
    uint8_t *block = keep_array(values.data(), values.size(), blocks);
    void *pointers[kParameters];
    for (size_t i = 0; i < kParameters; i++) pointers[i] = block + i * sizeof(uint64_t);
    p.kernelParams = values.empty() ? nullptr : keep_array(pointers, kParameters, blocks);
    p.extra = nullptr;
}

inline void deep(Bytes &to, const CUDA_MEMCPY3D &c)
{
    auto side = [&](CUmemorytype type, CUarray array, CUdeviceptr address) {
        if (type == CU_MEMORYTYPE_ARRAY)
            add(to, array);
        else
            add(to, address);
    };
    add_all(to, c.srcMemoryType, c.srcXInBytes, c.srcY, c.srcZ, c.srcLOD, c.srcPitch, c.srcHeight);
    side(c.srcMemoryType, c.srcArray, c.srcDevice);
    add_all(to, c.dstMemoryType, c.dstXInBytes, c.dstY, c.dstZ, c.dstLOD, c.dstPitch, c.dstHeight);
    side(c.dstMemoryType, c.dstArray, c.dstDevice);
    add_all(to, c.WidthInBytes, c.Height, c.Depth);
}
inline void keep(CUDA_MEMCPY3D &, Blocks &) {}

// Only the program knows what its function is.
inline void deep(Bytes &to, const CUDA_HOST_NODE_PARAMS &p) { add(to, uint8_t{p.fn != nullptr}); }
inline void keep(CUDA_HOST_NODE_PARAMS &, Blocks &) {}

template <class P>
concept AllocNode = requires(P p)
{
    p.accessDescs;
};

template <AllocNode P> void deep(Bytes &to, const P &p)
{
    add_all(to, p.poolProps.allocType, p.poolProps.handleTypes, p.poolProps.location,
            p.poolProps.maxSize, p.poolProps.usage, p.bytesize, p.accessDescCount);
    add(to, p.accessDescs, p.accessDescCount * sizeof *p.accessDescs);
}
template <AllocNode P> void keep(P &p, Blocks &blocks)
{
    p.accessDescs = keep_array(p.accessDescs, p.accessDescCount, blocks);
}

template <class P>
concept BatchNode = requires(P p)
{
    p.paramArray;
};

template <BatchNode P> void deep(Bytes &to, const P &p)
{
    add_all(to, p.ctx, p.flags, p.count);
    add(to, p.paramArray, p.count * sizeof *p.paramArray);
}
template <BatchNode P> void keep(P &p, Blocks &blocks)
{
    p.paramArray = keep_array(p.paramArray, p.count, blocks);
}

// The union holds no padding in the middle: its bytes are its meaning.
inline void deep(Bytes &to, const CUDA_RESOURCE_DESC &d) { add_all(to, d.resType, d.res, d.flags); }
inline void keep(CUDA_RESOURCE_DESC &, Blocks &) {}

inline void deep(Bytes &to, const CUlaunchConfig &c)
{
    add_all(to, c.gridDimX, c.gridDimY, c.gridDimZ, c.blockDimX, c.blockDimY, c.blockDimZ,
            c.sharedMemBytes, c.hStream, c.numAttrs);
    add(to, c.attrs, c.numAttrs * sizeof *c.attrs);
}
inline void keep(CUlaunchConfig &c, Blocks &blocks)
{
    c.attrs = keep_array(c.attrs, c.numAttrs, blocks);
}

inline void deep(Bytes &to, const CUDA_GRAPH_INSTANTIATE_PARAMS &p)
{
    add_all(to, p.flags, p.hUploadStream);
}
inline void keep(CUDA_GRAPH_INSTANTIATE_PARAMS &, Blocks &) {}

inline void deep(Bytes &to, const CUgraphNodeParams &p)
{
    add(to, p.type);
    switch (p.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: return deep(to, p.kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY: return add(to, p.memcpy.copyCtx), deep(to, p.memcpy.copyParams);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return add_all(to, p.memset.dst, p.memset.pitch, p.memset.value, p.memset.elementSize,
                       p.memset.width, p.memset.height, p.memset.ctx);
    case CU_GRAPH_NODE_TYPE_HOST: return add(to, uint8_t{p.host.fn != nullptr});
    case CU_GRAPH_NODE_TYPE_GRAPH: return add(to, p.graph.graph);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT: return add(to, p.eventWait.event);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD: return add(to, p.eventRecord.event);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC: return deep(to, p.alloc);
    case CU_GRAPH_NODE_TYPE_MEM_FREE: return add(to, p.free.dptr);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: return deep(to, p.memOp);
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
        return add_all(to, p.conditional.handle, p.conditional.type, p.conditional.size,
                       p.conditional.ctx);
    default: return;
    }
}
inline void keep(CUgraphNodeParams &, Blocks &) {}  // nobody asks for it again

inline void deep(Bytes &to, const CUgraphExecUpdateResultInfo &i)
{
    add_all(to, i.result, i.errorNode, i.errorFromNode);
}

// What a call that changes its struct writes into it.
inline void deep_out(Bytes &to, const CUgraphNodeParams &p)
{
    if (p.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) add(to, p.alloc.dptr);
}
inline void deep_out(Bytes &to, const CUDA_MEM_ALLOC_NODE_PARAMS &p) { add(to, p.dptr); }
inline void deep_out(Bytes &to, const CUDA_GRAPH_INSTANTIATE_PARAMS &p)
{
    add_all(to, p.hErrNode_out, p.result_out);
}

template <class T>
concept Deep = requires(Bytes &b, const T &t)
{
    deep(b, t);
};
template <class T>
concept Kept = requires(T &t, Blocks &b)
{
    keep(t, b);
};
template <class T>
concept DeepOut = requires(Bytes &b, const T &t)
{
    deep_out(b, t);
};

}  // namespace rgpu::recorder
