// SPDX-License-Identifier: Apache-2.0
// Bodies of graphs: the parameters of nodes, and what calls about graphs answer. As in bodies.h
// each layout is written and read here only. A handle is its number, 0 for none.
//
// Kernel nodes are in bodies.h. A copy's node is the number of its context and the struct itself,
// with numbers in place of arrays.
#pragma once

#include <cstdint>

#include "calls/cuda_api.h"
#include "calls/handles.h"
#include "wire/codec.h"

namespace rgpu::wire {

// Values as they are, their u64 count in front.
template <class T> void write_list(Writer &w, const T *values, size_t count)
{
    w.value(uint64_t{count});
    w.bytes(values, count * sizeof(T));
}
// As they lie in the body, not aligned. Where they are not all there: none, and `first` is null.
struct List {
    const uint8_t *first = nullptr;
    size_t count = 0, bytes = 0;
};
template <class T> List read_list(Reader &r)
{
    List l;
    l.count = r.count(sizeof(T));
    l.bytes = l.count * sizeof(T);
    l.first = r.bytes(l.bytes);
    return l;
}

// A host node: the token of its function, as in HostFunction (bodies.h).
struct HostNode {
    uint64_t token;
};

// A node that allocates memory, and what is answered about it. Behind it: the list of access
// descriptors. `From` and `To`: both versions of CUDA_MEM_ALLOC_NODE_PARAMS.
struct AllocationNode {
    CUmemPoolProps pool;
    uint64_t bytes;
    CUdeviceptr address;

    template <class From> static AllocationNode of(const From &p)
    {
        AllocationNode n{p.poolProps, p.bytesize, p.dptr};
        n.pool.win32SecurityAttributes = nullptr;
        return n;
    }
    template <class To> void put_into(To &p) const
    {
        p.poolProps = pool, p.bytesize = bytes, p.dptr = address;
        p.poolProps.win32SecurityAttributes = nullptr;
    }
};
static_assert(sizeof(AllocationNode) ==
              sizeof(CUmemPoolProps) + sizeof(uint64_t) + sizeof(CUdeviceptr));

// A batch of memory operations. Behind it: the list of them.
struct BatchNode {
    calls::HandleId context;
    uint32_t flags;
};

// A conditional node. Answered about it: the list of its graphs' numbers.
struct ConditionalNode {
    calls::HandleId context = 0;
    uint64_t handle = 0;  // the driver's number
    uint32_t type = 0, size = 0;

    void write(Writer &w) const { w.value(context), w.value(handle), w.value(type), w.value(size); }
    static ConditionalNode read(Reader &r)
    {
        ConditionalNode n;
        n.context = r.value<calls::HandleId>(), n.handle = r.value<uint64_t>();
        n.type = r.value<uint32_t>(), n.size = r.value<uint32_t>();
        return n;
    }
};

// A memset's node: the number of its context, and the struct without it.
struct MemsetNode {
    calls::HandleId context = 0;
    CUDA_MEMSET_NODE_PARAMS_v2 memset{};

    void write(Writer &w) const
    {
        CUDA_MEMSET_NODE_PARAMS_v2 sent = memset;
        sent.ctx = nullptr;
        w.value(context), w.value(sent);
    }
    static MemsetNode read(Reader &r)
    {
        MemsetNode n;
        n.context = r.value<calls::HandleId>();
        n.memset = r.value<CUDA_MEMSET_NODE_PARAMS_v2>();
        n.memset.ctx = nullptr;
        return n;
    }
};

// What cuGraphExecUpdate answers.
struct UpdateAnswer {
    CUgraphExecUpdateResult result;
    calls::HandleId node, from_node;
};

// cuGraphInstantiateWithParams, and its answer.
struct Instantiation {
    uint64_t flags = 0;
    calls::HandleId stream = 0;

    void write(Writer &w) const { w.value(flags), w.value(stream); }
    static Instantiation read(Reader &r)
    {
        Instantiation i;
        i.flags = r.value<uint64_t>(), i.stream = r.value<calls::HandleId>();
        return i;
    }
};
struct InstantiationAnswer {
    calls::HandleId node;
    CUgraphInstantiateResult result;
};

}  // namespace rgpu::wire
