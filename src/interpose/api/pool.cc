// SPDX-License-Identifier: Apache-2.0
// Memory pools: those of the host are the client's own (mirror/host_pools.h). Attributes of pools
// and of graphs' memory are pointers to an int or a 64-bit number, by the attribute.
//
// Body of an attribute's call: number of the pool (or the device), attribute, and (set) the value
// as 8 bytes. Answer of get: 8 bytes.
#include "interpose/mirror/host_pieces.h"
#include "interpose/mirror/host_pools.h"
#include "interpose/stream/pools.h"
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
    CUresult r = ask(CallId::cuMemPoolSetAttribute, pool, attribute, &number, true);
    if (!r) pools::note_attribute(pool, attribute, number);
    return r;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    if (!value) return CUDA_ERROR_INVALID_VALUE;
    uint64_t number = 0;
    bool alone = false;
    const auto counted = pools::attribute(pool, attribute, alone);
    CUresult r = CUDA_SUCCESS;
    if (host_pools::is_host(pool))
        r = host_pools::get_attribute(pool, attribute, number);
    else if (!counted || !alone)
        r = ask(CallId::cuMemPoolGetAttribute, pool, attribute, &number, false);
    if (counted) number += *counted;
    if (!r) memcpy(value, &number, value_bytes(attribute));
    return r;
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *p)
{
    if (p && host_pieces::is_host(p->location)) return host_pools::create(pool, *p);
    // Pools of managed memory would be the server's alone.
    if (p && p->allocType != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_NOT_SUPPORTED;
    CUresult r = remote<CallId::cuMemPoolCreate>(pool, p);
    if (!r) pools::created(*pool, *p);
    return r;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
    if (host_pools::is_host(pool)) return host_pools::destroy(pool);
    const auto id = Handles::get().id(pool);
    CUresult r = remote<CallId::cuMemPoolDestroy>(pool);
    if (!r) pools::destroyed(*id);
    return r;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t bytes)
{
    if (host_pools::is_host(pool)) return host_pools::trim(pool);
    return pools::trim(pool, bytes) ? CUDA_SUCCESS : remote<CallId::cuMemPoolTrimTo>(pool, bytes);
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

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device)
{
    CUresult r = remote<CallId::cuDeviceGetDefaultMemPool>(pool, device);
    if (!r) pools::is_default(*pool, device);
    return r;
}

CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device)
{
    CUresult r = remote<CallId::cuDeviceGetMemPool>(pool, device);
    if (!r) pools::is_present(*pool, device);
    return r;
}

CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool)
{
    pools::expect_device(device);
    CUresult r = remote<CallId::cuDeviceSetMemPool>(device, pool);
    if (!r) pools::set_present(pool, device);
    return r;
}

#if CUDA_VERSION >= 13000
namespace {

bool is_of_device(const CUmemLocation *l, CUmemAllocationType type)
{
    return l && l->type == CU_MEM_LOCATION_TYPE_DEVICE && type == CU_MEM_ALLOCATION_TYPE_PINNED;
}

}  // namespace

CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool, CUmemLocation *l, CUmemAllocationType type)
{
    if (l && type == CU_MEM_ALLOCATION_TYPE_PINNED && host_pieces::is_host(*l))
        return host_pools::default_of(pool, *l);
    CUresult r = remote<CallId::cuMemGetDefaultMemPool>(pool, l, type);
    if (!r && is_of_device(l, type)) pools::is_default(*pool, l->id);
    return r;
}

CUresult cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *l, CUmemAllocationType type)
{
    if (l && type == CU_MEM_ALLOCATION_TYPE_PINNED && host_pieces::is_host(*l))
        return host_pools::present_of(pool, *l);
    CUresult r = remote<CallId::cuMemGetMemPool>(pool, l, type);
    if (!r && is_of_device(l, type)) pools::is_present(*pool, l->id);
    return r;
}

CUresult cuMemSetMemPool(CUmemLocation *l, CUmemAllocationType type, CUmemoryPool pool)
{
    if (l && type == CU_MEM_ALLOCATION_TYPE_PINNED && host_pieces::is_host(*l))
        return host_pools::set_present(*l, pool);
    if (is_of_device(l, type)) pools::expect_device(l->id);
    CUresult r = remote<CallId::cuMemSetMemPool>(l, type, pool);
    if (!r && is_of_device(l, type)) pools::set_present(pool, l->id);
    return r;
}
#endif

}  // namespace own

}  // namespace rgpu::interpose
