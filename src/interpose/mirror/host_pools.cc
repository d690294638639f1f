// SPDX-License-Identifier: Apache-2.0
// Pools are lists of what they gave. Memory that is freed in a stream waits for an event in it.
#include "interpose/mirror/host_pools.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "interpose/mirror/host_pieces.h"
#include "interpose/mirror/mirror.h"
#include "interpose/state/capture.h"
#include "interpose/state/client.h"
#include "interpose/state/process.h"
#include "interpose/state/ranges.h"
#include "interpose/stub/by_hand.h"
#include "interpose/stub/stub.h"

namespace rgpu::interpose::host_pools {

namespace {

struct Pool {
    CUmemPoolProps properties{};
    uint64_t reuse[3] = {1, 1, 1}, threshold = 0;  // kept for who asks: nothing is reused
    uint64_t used = 0, high = 0;
    std::map<int, CUmemAccess_flags> devices;
};

struct Block {
    std::shared_ptr<Pool> pool;
    size_t bytes = 0;
};

// What a stream frees when it has come to the event.
struct Leaving {
    CUevent event = nullptr;
    CUdeviceptr base = 0;
    Block block;
};

using Location = std::pair<CUmemLocationType, int>;

struct HostPools {
    std::mutex mutex;
    // A pool's handle is its address, which is none of a server's handles.
    std::map<CUmemoryPool, std::shared_ptr<Pool>> pools;
    std::map<Location, CUmemoryPool> defaults, present;
    std::map<CUdeviceptr, Block> blocks;
    std::vector<Leaving> leaving;
};

// Whether there ever was a pool: other programs pay nothing.
std::atomic<uint32_t> &in_use() { return client_counter(Counter::host_pools); }

HostPools &state() { return client_part<HostPools>(Part::host_pools); }

Location location_of(const CUmemLocation &l)
{
    return {l.type, l.type == CU_MEM_LOCATION_TYPE_HOST_NUMA ? l.id : 0};
}

CUresult check(const CUmemPoolProps &p)
{
    CUmemAllocationProp memory{};
    memory.type = p.allocType, memory.location = p.location;
    if (CUresult r = host_pieces::check(memory)) return r;
    if (!p.handleTypes) return CUDA_SUCCESS;
    // cuMemPoolCreate: such a pool has no handles. One of a NUMA node may have; ours has none.
    return p.location.type == CU_MEM_LOCATION_TYPE_HOST ? CUDA_ERROR_INVALID_VALUE
                                                        : CUDA_ERROR_NOT_SUPPORTED;
}

// With the mutex held.
CUmemoryPool add(HostPools &s, const CUmemPoolProps &p)
{
    const auto pool = std::make_shared<Pool>();
    pool->properties = p;
    const auto handle = reinterpret_cast<CUmemoryPool>(pool.get());
    s.pools[handle] = pool;
    in_use() = 1;
    return handle;
}

std::shared_ptr<Pool> find(HostPools &s, CUmemoryPool handle)
{
    const auto it = s.pools.find(handle);
    return it == s.pools.end() ? nullptr : it->second;
}

// Where an attribute stands that a program may set to any value; null for every other one.
uint64_t *setting(Pool &pool, CUmemPool_attribute which)
{
    switch (which) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        return &pool.reuse[which - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES];
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: return &pool.threshold;
    default: return nullptr;
    }
}

void give_back(CUdeviceptr base)
{
    forget_host(base, true);
    mirror::give_back(base);
}

// Memory whose stream has come past its end.
void reap()
{
    HostPools &s = state();
    std::vector<Leaving> waiting, gone;
    {
        std::lock_guard lock(s.mutex);
        waiting.swap(s.leaving);
    }
    for (Leaving &l : waiting)
        if (own::cuEventQuery(l.event) != CUDA_ERROR_NOT_READY)
            gone.push_back(std::exchange(l, {}));
    std::erase_if(waiting, [](const Leaving &l) { return !l.base; });
    for (const Leaving &l : gone) {
        remote<CallId::cuEventDestroy_v2>(l.event);
        give_back(l.base);
    }
    std::lock_guard lock(s.mutex);
    for (const Leaving &l : gone) l.block.pool->used -= l.block.bytes;
    s.leaving.insert(s.leaving.end(), waiting.begin(), waiting.end());
}

// The block that begins there, which is no longer the program's.
std::optional<Block> take(CUdeviceptr base)
{
    if (!in_use()) return std::nullopt;
    HostPools &s = state();
    std::lock_guard lock(s.mutex);
    const auto it = s.blocks.find(base);
    if (it == s.blocks.end()) return std::nullopt;
    Block block = std::move(it->second);
    s.blocks.erase(it);
    return block;
}

void put_back(CUdeviceptr base, Block block)
{
    HostPools &s = state();
    std::lock_guard lock(s.mutex);
    s.blocks[base] = std::move(block);
}

CUresult check_stream(CUstream stream)
{
    if (!any_capture()) return CUDA_SUCCESS;
    CUstreamCaptureStatus status{};
    if (CUresult r = own::cuStreamIsCapturing(stream, &status)) return r;
    return status == CU_STREAM_CAPTURE_STATUS_NONE ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult event_behind(CUstream stream, CUevent &event)
{
    if (CUresult r = own::cuEventCreate(&event, CU_EVENT_DISABLE_TIMING)) return r;
    const CUresult r = own::cuEventRecord(event, stream);
    if (r) remote<CallId::cuEventDestroy_v2>(event);
    return r;
}

}  // namespace

bool is_host(CUmemoryPool handle)
{
    if (!in_use()) return false;
    HostPools &s = state();
    std::lock_guard lock(s.mutex);
    return s.pools.contains(handle);
}

CUresult create(CUmemoryPool *handle, const CUmemPoolProps &p)
{
    if (!session()) return not_ready();
    if (!handle) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult r = check(p)) return r;
    HostPools &s = state();
    std::lock_guard lock(s.mutex);
    *handle = add(s, p);
    return CUDA_SUCCESS;
}

// What it gave stays until it is freed.
CUresult destroy(CUmemoryPool handle)
{
    reap();
    HostPools &s = state();
    std::lock_guard lock(s.mutex);
    for (const auto &[place, pool] : s.defaults)
        if (pool == handle) return CUDA_ERROR_INVALID_VALUE;
    std::erase_if(s.present, [&](const auto &p) { return p.second == handle; });
    return s.pools.erase(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult get_attribute(CUmemoryPool handle, CUmemPool_attribute which, uint64_t &value)
{
    reap();
    HostPools &s = state();
    std::lock_guard lock(s.mutex);
    const auto pool = find(s, handle);
    if (!pool) return CUDA_ERROR_INVALID_VALUE;
    if (const uint64_t *kept = setting(*pool, which)) {
        value = *kept;
        return CUDA_SUCCESS;
    }
    switch (which) {
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT: value = pool->used; return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH: value = pool->high; return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult set_attribute(CUmemoryPool handle, CUmemPool_attribute which, uint64_t value)
{
    HostPools &s = state();
    std::lock_guard lock(s.mutex);
    const auto pool = find(s, handle);
    if (!pool) return CUDA_ERROR_INVALID_VALUE;
    if (uint64_t *kept = setting(*pool, which)) {
        *kept = value;
        return CUDA_SUCCESS;
    }
    switch (which) {
    // These begin anew; no other value can be set.
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        if (value) return CUDA_ERROR_INVALID_VALUE;
        pool->high = pool->used;
        return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult trim(CUmemoryPool handle)
{
    reap();
    return is_host(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult set_access(CUmemoryPool handle, const CUmemAccessDesc *map, size_t count)
{
    if (!map && count) return CUDA_ERROR_INVALID_VALUE;
    HostPools &s = state();
    std::lock_guard lock(s.mutex);
    const auto pool = find(s, handle);
    if (!pool) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        if (map[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
        if (!device(map[i].location.id)) return CUDA_ERROR_INVALID_DEVICE;
    }
    for (size_t i = 0; i < count; i++) pool->devices[map[i].location.id] = map[i].flags;
    return CUDA_SUCCESS;
}

CUresult get_access(CUmemAccess_flags *flags, CUmemoryPool handle, const CUmemLocation &l)
{
    HostPools &s = state();
    std::lock_guard lock(s.mutex);
    const auto pool = find(s, handle);
    if (!flags || !pool) return CUDA_ERROR_INVALID_VALUE;
    if (host_pieces::is_host(l)) {
        *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        return CUDA_SUCCESS;
    }
    if (l.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
    if (!device(l.id)) return CUDA_ERROR_INVALID_DEVICE;
    const auto it = pool->devices.find(l.id);
    *flags = it == pool->devices.end() ? CU_MEM_ACCESS_FLAGS_PROT_NONE : it->second;
    return CUDA_SUCCESS;
}

CUresult allocate(CUdeviceptr *out, size_t bytes, CUmemoryPool handle, CUstream stream)
{
    if (!out || !bytes) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult r = check_stream(stream)) return r;
    reap();
    HostPools &s = state();
    std::shared_ptr<Pool> pool;
    {
        std::lock_guard lock(s.mutex);
        if (!(pool = find(s, handle))) return CUDA_ERROR_INVALID_VALUE;
        const size_t most = pool->properties.maxSize;
        if (most && (bytes > most || pool->used > most - bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
        pool->used += bytes;
    }
    void *p = nullptr;
    const CUresult r =
        own::cuMemHostAlloc(&p, bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    if (!r) host_pieces::prefer_node(p, bytes, pool->properties.location);
    std::lock_guard lock(s.mutex);
    if (r) {
        pool->used -= bytes;
        return r;
    }
    pool->high = std::max(pool->high, pool->used);
    *out = reinterpret_cast<CUdeviceptr>(p);
    s.blocks[*out] = {pool, bytes};
    return CUDA_SUCCESS;
}

bool owns(CUdeviceptr base)
{
    if (!in_use()) return false;
    HostPools &s = state();
    std::lock_guard lock(s.mutex);
    return s.blocks.contains(base);
}

std::optional<CUresult> free_behind(CUdeviceptr base, CUstream stream)
{
    auto block = take(base);
    if (!block) return std::nullopt;
    CUevent event = nullptr;
    CUresult r = check_stream(stream);
    if (!r) r = event_behind(stream, event);
    if (r) {
        put_back(base, std::move(*block));
        return r;
    }
    HostPools &s = state();
    {
        std::lock_guard lock(s.mutex);
        s.leaving.push_back({event, base, std::move(*block)});
    }
    reap();
    return CUDA_SUCCESS;
}

std::optional<CUresult> free(CUdeviceptr base)
{
    auto block = take(base);
    if (!block) return std::nullopt;
    if (CUresult r = own::cuCtxSynchronize()) {
        put_back(base, std::move(*block));
        return r;
    }
    give_back(base);
    HostPools &s = state();
    std::lock_guard lock(s.mutex);
    block->pool->used -= block->bytes;
    return CUDA_SUCCESS;
}

CUresult default_of(CUmemoryPool *handle, const CUmemLocation &l)
{
    if (!session()) return not_ready();
    if (!handle) return CUDA_ERROR_INVALID_VALUE;
    CUmemPoolProps p{};
    p.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, p.location = l;
    if (CUresult r = check(p)) return r;
    HostPools &s = state();
    std::lock_guard lock(s.mutex);
    CUmemoryPool &pool = s.defaults[location_of(l)];
    if (!pool) pool = add(s, p);
    *handle = pool;
    return CUDA_SUCCESS;
}

CUresult present_of(CUmemoryPool *handle, const CUmemLocation &l)
{
    if (CUresult r = default_of(handle, l)) return r;
    HostPools &s = state();
    std::lock_guard lock(s.mutex);
    if (const auto it = s.present.find(location_of(l)); it != s.present.end()) *handle = it->second;
    return CUDA_SUCCESS;
}

CUresult set_present(const CUmemLocation &l, CUmemoryPool handle)
{
    HostPools &s = state();
    std::lock_guard lock(s.mutex);
    const auto pool = find(s, handle);
    if (!pool || location_of(pool->properties.location) != location_of(l))
        return CUDA_ERROR_INVALID_VALUE;
    s.present[location_of(l)] = handle;
    return CUDA_SUCCESS;
}

}  // namespace rgpu::interpose::host_pools
