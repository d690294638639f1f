// SPDX-License-Identifier: Apache-2.0
// Memory pools: those of the host are the client's own (mirror/host_pools.h). Attributes of pools
// and of graphs' memory are pointers to an int or a 64-bit number, by the attribute.
//
// Body of an attribute's call: number of the pool (or the device), attribute, and (set) the value
// as 8 bytes. Answer of get: 8 bytes.
#include "interpose/mirror/host_pieces.h"
#include "interpose/mirror/host_pools.h"
#include "interpose/stub/by_hand.h"
#include "interpose/stub/stub.h"

namespace rgpu::interpose {

namespace {

size_t value_bytes(CUmemPool_attribute a)
{
    switch (a) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES: return sizeof(int);
    default: return sizeof(cuuint64_t);
    }
}

CUresult take_value(const Reply &reply, uint64_t &value)
{
    wire::Reader answer(reply.body.data(), reply.body.size());
    value = answer.value<uint64_t>();
    return answer.at_end() ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

CUresult ask(calls::SentCall id, CUmemoryPool pool, CUmemPool_attribute attribute, uint64_t *value,
             bool set)
{
    if (!session()) return not_ready();
    auto number = Handles::get().id(pool);
    if (!number || !*number) return CUDA_ERROR_INVALID_HANDLE;
    Reply reply;
    CUresult r = session()->ask(
        id, current_context(),
        [&](wire::Writer &w) {
            w.value(*number), w.value(static_cast<uint32_t>(attribute));
            if (set) w.value(*value);
        },
        reply);
    return r || set ? r : take_value(reply, *value);
}

CUresult ask_graph_memory(calls::SentCall id, CUdevice device, CUgraphMem_attribute attribute,
                          void *value, bool set)
{
    if (!session()) return not_ready();
    if (!value) return CUDA_ERROR_INVALID_VALUE;
    Reply reply;
    CUresult r = session()->ask(
        id, current_context(),
        [&](wire::Writer &w) {
            w.value(to_wire(device)), w.value(static_cast<uint32_t>(attribute));
            if (set) w.value(*static_cast<cuuint64_t *>(value));
        },
        reply);
    uint64_t got = 0;
    if (!r && !set && !(r = take_value(reply, got))) *static_cast<cuuint64_t *>(value) = got;
    return r;
}

}  // namespace

namespace own {

CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void *value)
{
    return ask_graph_memory(CallId::cuDeviceGetGraphMemAttribute, device, attribute, value, false);
}

CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void *value)
{
    return ask_graph_memory(CallId::cuDeviceSetGraphMemAttribute, device, attribute, value, true);
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    if (!value) return CUDA_ERROR_INVALID_VALUE;
    uint64_t number = 0;
    memcpy(&number, value, value_bytes(attribute));
    if (host_pools::is_host(pool)) return host_pools::set_attribute(pool, attribute, number);
    return ask(CallId::cuMemPoolSetAttribute, pool, attribute, &number, true);
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    if (!value) return CUDA_ERROR_INVALID_VALUE;
    uint64_t number = 0;
    CUresult r = host_pools::is_host(pool)
                     ? host_pools::get_attribute(pool, attribute, number)
                     : ask(CallId::cuMemPoolGetAttribute, pool, attribute, &number, false);
    if (!r) memcpy(value, &number, value_bytes(attribute));
    return r;
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *p)
{
    if (p && host_pieces::is_host(p->location)) return host_pools::create(pool, *p);
    // Pools of managed memory would be the server's alone.
    if (p && p->allocType != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_NOT_SUPPORTED;
    return remote<CallId::cuMemPoolCreate>(pool, p);
}

CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
    return host_pools::is_host(pool) ? host_pools::destroy(pool)
                                     : remote<CallId::cuMemPoolDestroy>(pool);
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t bytes)
{
    return host_pools::is_host(pool) ? host_pools::trim(pool)
                                     : remote<CallId::cuMemPoolTrimTo>(pool, bytes);
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
    return host_pools::is_host(pool) ? host_pools::set_access(pool, map, count)
                                     : remote<CallId::cuMemPoolSetAccess>(pool, map, count);
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool pool, CUmemLocation *location)
{
    return location && host_pools::is_host(pool)
               ? host_pools::get_access(flags, pool, *location)
               : remote<CallId::cuMemPoolGetAccess>(flags, pool, location);
}

#if CUDA_VERSION >= 13000
CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool, CUmemLocation *l, CUmemAllocationType type)
{
    return l && type == CU_MEM_ALLOCATION_TYPE_PINNED && host_pieces::is_host(*l)
               ? host_pools::default_of(pool, *l)
               : remote<CallId::cuMemGetDefaultMemPool>(pool, l, type);
}

CUresult cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *l, CUmemAllocationType type)
{
    return l && type == CU_MEM_ALLOCATION_TYPE_PINNED && host_pieces::is_host(*l)
               ? host_pools::present_of(pool, *l)
               : remote<CallId::cuMemGetMemPool>(pool, l, type);
}

CUresult cuMemSetMemPool(CUmemLocation *l, CUmemAllocationType type, CUmemoryPool pool)
{
    return l && type == CU_MEM_ALLOCATION_TYPE_PINNED && host_pieces::is_host(*l)
               ? host_pools::set_present(*l, pool)
               : remote<CallId::cuMemSetMemPool>(l, type, pool);
}
#endif

}  // namespace own

}  // namespace rgpu::interpose
