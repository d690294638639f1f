// The calls that take or tell device memory, in front of the driver's.
#include <algorithm>

#include "serverd/worker/memory_cap.h"

namespace rgpu::worker {

namespace {

MemoryCap *the_cap = nullptr;

#define REAL(name) (the_cap->real.call<CallId::name>())

// All of them are carried out one after the other.
struct Entry {
    std::lock_guard<std::recursive_mutex> lock{the_cap->mutex};
    MemoryCap *operator->() const { return the_cap; }
};

// A call as it is, its cost measured on the current device.
template <CallId Id> void measure(Driver &driver)
{
    driver.replace<Id>([](auto... a) -> CUresult {
        Entry cap;
        // A function that comes after may have the same handle.
        if constexpr (Id == CallId::cuModuleUnload || Id == CallId::cuLibraryUnload) cap->launched.clear();
        return cap->measured(cap->current_device(), [&] { return the_cap->real.call<Id>()(a...); });
    });
}

template <CallId Id, CallId Undo> void measure_made(Driver &driver)
{
    driver.replace<Id>([](auto *made, auto... a) -> CUresult {
        Entry cap;
        return cap->measured(
            cap->current_device(), [&] { return the_cap->real.call<Id>()(made, a...); },
            [&] { return the_cap->real.call<Undo>()(*made); });
    });
}

// --- linear and managed

CUresult allocate(CUdeviceptr *address, size_t bytes)
{
    Entry cap;
    const int device = cap->current_device();
    auto call = [&] { return REAL(cuMemAlloc_v2)(address, bytes); };
    if (device < 0 || !bytes) return call();
    if (bytes <= kSharesPages) return cap->measured(device, call, [&] { return REAL(cuMemFree_v2)(*address); });
    uint64_t held = 0;
    CUresult r = cap->sized(device, bytes, held, call);
    if (!r) cap->held[*address] = {device, held};
    return r;
}

CUresult allocate_managed(CUdeviceptr *address, size_t bytes, unsigned flags)
{
    Entry cap;
    const int device = cap->current_device();
    uint64_t held = 0;
    auto call = [&] { return REAL(cuMemAllocManaged)(address, bytes, flags); };
    // NVIDIA's comes to the device when it is touched: only its size says what it may take.
    if (cap->is_software && bytes && bytes <= kSharesPages)
        return cap->measured(device, call, [&] { return REAL(cuMemFree_v2)(*address); });
    CUresult r = cap->sized(device, bytes, held, call);
    if (!r) cap->held[*address] = {device, held};
    return r;
}

CUresult allocate_pitch(CUdeviceptr *address, size_t *pitch, size_t width, size_t height, unsigned element)
{
    Entry cap;
    return cap->measured(
        cap->current_device(), [&] { return REAL(cuMemAllocPitch_v2)(address, pitch, width, height, element); },
        [&] { return REAL(cuMemFree_v2)(*address); });
}

// What a pool's memory counts for when its pool can be asked no more, or is asked now.
void pooled_is_freed(CUdeviceptr address)
{
    auto at = the_cap->pooled.find(address);
    if (at == the_cap->pooled.end()) return;
    auto [pool, held] = at->second;
    the_cap->pooled.erase(at);
    if (the_cap->pools.count(pool))
        the_cap->refresh(held.device);
    else
        the_cap->give(held.device, held.bytes);
}

// What is freed now or in stream order, by whichever call.
template <class Free> CUresult free_memory(CUdeviceptr address, Free free)
{
    Entry cap;
    auto at = cap->held.find(address);
    if (at == cap->held.end() && !cap->pooled.count(address)) return cap->measured(cap->current_device(), free);
    if (CUresult r = free()) return r;
    if (at != cap->held.end()) {
        cap->give(at->second.device, at->second.bytes);
        cap->held.erase(at);
    }
    pooled_is_freed(address);
    return CUDA_SUCCESS;
}

// --- pools

CUresult allocate_pooled(CUdeviceptr *address, size_t bytes, CUmemoryPool pool, CUstream stream,
                         const MemoryCap::Call &call)
{
    Entry cap;
    const int device = cap->current_device();
    if (device < 0 || !pool) return call();
    MemoryCap::Pool &state = cap->pools.try_emplace(pool, MemoryCap::Pool{device, 0}).first->second;
    cuuint64_t reserved = 0, used = 0;
    cap->refresh(state.device);
    REAL(cuMemPoolGetAttribute)(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved);
    REAL(cuMemPoolGetAttribute)(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used);
    const uint64_t idle = reserved - std::min(reserved, used);
    if (bytes > idle && bytes - idle > cap->left(state.device)) return CUDA_ERROR_OUT_OF_MEMORY;
    if (CUresult r = call()) return r;
    const bool fits = [&] {
        cap->refresh(state.device);
        return cap->used(state.device) <= cap->cap(state.device);
    }();
    if (!fits) {
        // The pool grew by more than was asked for. It gives that back when the stream gets there.
        REAL(cuMemFreeAsync)(*address, stream);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    cap->pooled[*address] = {pool, {state.device, (bytes + 511) / 512 * 512}};
    return CUDA_SUCCESS;
}

CUresult allocate_async(CUdeviceptr *address, size_t bytes, CUstream stream)
{
    CUmemoryPool pool = nullptr;
    const int device = the_cap->current_device();
    if (device >= 0) REAL(cuDeviceGetMemPool)(&pool, device);
    return allocate_pooled(address, bytes, pool, stream, [&] { return REAL(cuMemAllocAsync)(address, bytes, stream); });
}

CUresult allocate_from_pool(CUdeviceptr *address, size_t bytes, CUmemoryPool pool, CUstream stream)
{
    return allocate_pooled(address, bytes, pool, stream,
                           [&] { return REAL(cuMemAllocFromPoolAsync)(address, bytes, pool, stream); });
}

CUresult destroy_pool(CUmemoryPool pool)
{
    Entry cap;
    auto at = cap->pools.find(pool);
    if (at == cap->pools.end()) return REAL(cuMemPoolDestroy)(pool);
    cap->refresh(at->second.device);
    const MemoryCap::Pool state = at->second;
    if (CUresult r = REAL(cuMemPoolDestroy)(pool)) return r;
    cap->pools.erase(pool);
    // What is allocated from it lives on, and is given back piece by piece.
    uint64_t alive = 0;
    for (const auto &[address, p] : cap->pooled)
        if (p.first == pool) alive += p.second.bytes;
    cap->give(state.device, state.counted - std::min(alive, state.counted));
    return CUDA_SUCCESS;
}

CUresult trim_pool(CUmemoryPool pool, size_t keep)
{
    Entry cap;
    CUresult r = REAL(cuMemPoolTrimTo)(pool, keep);
    if (auto at = cap->pools.find(pool); at != cap->pools.end()) cap->refresh(at->second.device);
    return r;
}

// --- virtual memory

CUresult create_physical(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *prop,
                         unsigned long long flags)
{
    Entry cap;
    auto call = [&] { return REAL(cuMemCreate)(handle, bytes, prop, flags); };
    if (!prop || prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE || prop->location.id < 0 ||
        static_cast<size_t>(prop->location.id) >= cap->graphs.size())
        return call();
    uint64_t held = 0;
    CUresult r = cap->sized(prop->location.id, bytes, held, call);
    if (!r) cap->physical[*handle] = {{prop->location.id, held}, 1};
    return r;
}

void drop_physical(CUmemGenericAllocationHandle handle)
{
    auto at = the_cap->physical.find(handle);
    if (at == the_cap->physical.end() || --at->second.references) return;
    the_cap->give(at->second.held.device, at->second.held.bytes);
    the_cap->physical.erase(at);
}

void hold_physical(CUmemGenericAllocationHandle handle)
{
    if (auto at = the_cap->physical.find(handle); at != the_cap->physical.end()) at->second.references++;
}

CUresult release_physical(CUmemGenericAllocationHandle handle)
{
    Entry cap;
    CUresult r = REAL(cuMemRelease)(handle);
    if (!r) drop_physical(handle);
    return r;
}

CUresult retain_physical(CUmemGenericAllocationHandle *handle, void *address)
{
    Entry cap;
    CUresult r = REAL(cuMemRetainAllocationHandle)(handle, address);
    if (!r) hold_physical(*handle);
    return r;
}

CUresult map_physical(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                      unsigned long long flags)
{
    Entry cap;
    CUresult r = REAL(cuMemMap)(address, bytes, offset, handle, flags);
    if (!r) {
        cap->mapped[address] = {bytes, handle};
        hold_physical(handle);
    }
    return r;
}

CUresult unmap_physical(CUdeviceptr address, size_t bytes)
{
    Entry cap;
    if (CUresult r = REAL(cuMemUnmap)(address, bytes)) return r;
    for (auto at = cap->mapped.lower_bound(address); at != cap->mapped.end() && at->first < address + bytes;) {
        drop_physical(at->second.second);
        at = cap->mapped.erase(at);
    }
    return CUDA_SUCCESS;
}

// --- graphs' own memory

CUresult add_graph_memory(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                          CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
    Entry cap;
    const int device = params ? params->poolProps.location.id : -1;
    if (device >= 0 && static_cast<size_t>(device) < cap->graphs.size()) {
        cap->has_graph_memory = true;
        // What graphs have is used again by other graphs.
        if (params->bytesize > cap->left(device) + cap->graphs[static_cast<size_t>(device)])
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return REAL(cuGraphAddMemAllocNode)(node, graph, after, count, params);
}

CUresult launch_graph(CUgraphExec graph, CUstream stream)
{
    CUresult r = REAL(cuGraphLaunch)(graph, stream);
    if (!the_cap->has_graph_memory) return r;
    Entry cap;
    for (size_t d = 0; d < cap->graphs.size(); d++) cap->refresh(static_cast<int>(d));
    return r;
}

CUresult trim_graphs(CUdevice device)
{
    Entry cap;
    CUresult r = REAL(cuDeviceGraphMemTrim)(device);
    if (!r) cap->refresh(device);
    return r;
}

// --- contexts

CUresult retain_primary(CUcontext *context, CUdevice device)
{
    Entry cap;
    unsigned flags = 0;
    int active = 0;
    auto call = [&] {
        CUresult r = REAL(cuDevicePrimaryCtxRetain)(context, device);
        if (!r) the_cap->contexts[static_cast<size_t>(device)].insert(*context);
        return r;
    };
    if (REAL(cuDevicePrimaryCtxGetState)(device, &flags, &active) || active) return call();
    return cap->measured(device, call, [&] {
        CUresult r = REAL(cuDevicePrimaryCtxRelease_v2)(device);
        the_cap->contexts[static_cast<size_t>(device)].erase(*context);
        return r;
    });
}

// The primary context, if this call ended it.
template <class End> CUresult end_primary(CUdevice device, End end)
{
    Entry cap;
    unsigned flags = 0;
    int before = 0, after = 0;
    CUcontext context = nullptr;
    REAL(cuDevicePrimaryCtxGetState)(device, &flags, &before);
    // Its handle is the same as long as the process lives.
    if (before && !REAL(cuDevicePrimaryCtxRetain)(&context, device)) REAL(cuDevicePrimaryCtxRelease_v2)(device);
    CUresult r = CUDA_SUCCESS;
    cap->measured(before && cap->contexts[static_cast<size_t>(device)].size() > 1 ? device : -1, [&] {
        r = end();
        REAL(cuDevicePrimaryCtxGetState)(device, &flags, &after);
        if (before && !after) the_cap->contexts[static_cast<size_t>(device)].erase(context);
        return r;
    });
    if (!r && before && !after) cap->forget_context(device, context);
    return r;
}

template <CallId Id> void measure_context(Driver &driver)
{
    driver.replace<Id>([](CUcontext *context, auto... a) -> CUresult {
        Entry cap;
        const int device = std::get<sizeof...(a) - 1>(std::tuple(a...));
        return cap->measured(
            device,
            [&] {
                CUresult r = the_cap->real.call<Id>()(context, a...);
                if (!r) the_cap->contexts[static_cast<size_t>(device)].insert(*context);
                return r;
            },
            [&] {
                the_cap->contexts[static_cast<size_t>(device)].erase(*context);
                return REAL(cuCtxDestroy_v2)(*context);
            });
    });
}

CUresult destroy_context(CUcontext context)
{
    Entry cap;
    int device = -1;
    for (size_t d = 0; d < cap->contexts.size(); d++)
        if (cap->contexts[d].count(context)) device = static_cast<int>(d);
    if (device < 0) return REAL(cuCtxDestroy_v2)(context);
    auto &known = cap->contexts[static_cast<size_t>(device)];
    CUresult r = cap->measured(known.size() > 1 ? device : -1, [&] {
        CUresult ended = REAL(cuCtxDestroy_v2)(context);
        if (!ended) known.erase(context);
        return ended;
    });
    if (!r) cap->forget_context(device, context);
    return r;
}

// --- functions, whose code and local memory come with the first launch

template <CallId Id, size_t Function> void measure_first(Driver &driver)
{
    driver.replace<Id>([](auto... a) -> CUresult {
        Entry cap;
        auto call = [&] { return the_cap->real.call<Id>()(a...); };
        const auto function = std::get<Function>(std::tuple(a...));
        return cap->launched.insert(function).second ? cap->measured(cap->current_device(), call) : call();
    });
}

// --- what is told

CUresult memory_info(size_t *free, size_t *total)
{
    Entry cap;
    size_t real_free = 0, real_total = 0;
    CUresult r = REAL(cuMemGetInfo_v2)(&real_free, &real_total);
    const int device = r ? -1 : cap->current_device();
    if (device < 0) return r;
    if (free) *free = std::min<uint64_t>(real_free, cap->left(device));
    if (total) *total = cap->cap(device);
    return CUDA_SUCCESS;
}

CUresult total_memory(size_t *bytes, CUdevice device)
{
    CUresult r = REAL(cuDeviceTotalMem_v2)(bytes, device);
    if (!r) *bytes = the_cap->cap(device);
    return r;
}

}  // namespace

void put_in_front(Driver &driver, MemoryCap &cap)
{
    the_cap = &cap;
    driver.replace<CallId::cuMemGetInfo_v2>(memory_info);
    driver.replace<CallId::cuDeviceTotalMem_v2>(total_memory);

    driver.replace<CallId::cuMemAlloc_v2>(allocate);
    driver.replace<CallId::cuMemAllocPitch_v2>(allocate_pitch);
    driver.replace<CallId::cuMemAllocManaged>(allocate_managed);
    driver.replace<CallId::cuMemFree_v2>([](CUdeviceptr p) { return free_memory(p, [&] { return REAL(cuMemFree_v2)(p); }); });
    driver.replace<CallId::cuMemFreeAsync>([](CUdeviceptr p, CUstream s) {
        return free_memory(p, [&] { return REAL(cuMemFreeAsync)(p, s); });
    });
    driver.replace<CallId::cuMemAllocAsync>(allocate_async);
    driver.replace<CallId::cuMemAllocFromPoolAsync>(allocate_from_pool);
    driver.replace<CallId::cuMemPoolDestroy>(destroy_pool);
    driver.replace<CallId::cuMemPoolTrimTo>(trim_pool);

    driver.replace<CallId::cuMemCreate>(create_physical);
    driver.replace<CallId::cuMemRelease>(release_physical);
    driver.replace<CallId::cuMemRetainAllocationHandle>(retain_physical);
    driver.replace<CallId::cuMemMap>(map_physical);
    driver.replace<CallId::cuMemUnmap>(unmap_physical);

    measure_made<CallId::cuArrayCreate_v2, CallId::cuArrayDestroy>(driver);
    measure_made<CallId::cuArray3DCreate_v2, CallId::cuArrayDestroy>(driver);
    measure_made<CallId::cuMipmappedArrayCreate, CallId::cuMipmappedArrayDestroy>(driver);
    measure<CallId::cuArrayDestroy>(driver);
    measure<CallId::cuMipmappedArrayDestroy>(driver);

    driver.replace<CallId::cuGraphAddMemAllocNode>(add_graph_memory);
    driver.replace<CallId::cuGraphLaunch>(launch_graph);
    driver.replace<CallId::cuDeviceGraphMemTrim>(trim_graphs);

    driver.replace<CallId::cuDevicePrimaryCtxRetain>(retain_primary);
    driver.replace<CallId::cuDevicePrimaryCtxRelease_v2>(
        [](CUdevice d) { return end_primary(d, [&] { return REAL(cuDevicePrimaryCtxRelease_v2)(d); }); });
    driver.replace<CallId::cuDevicePrimaryCtxReset_v2>(
        [](CUdevice d) { return end_primary(d, [&] { return REAL(cuDevicePrimaryCtxReset_v2)(d); }); });
    measure_context<CallId::cuCtxCreate_v2>(driver);
    measure_context<CallId::cuCtxCreate_v3>(driver);
    measure_context<CallId::cuCtxCreate_v4>(driver);
    driver.replace<CallId::cuCtxDestroy_v2>(destroy_context);
    measure<CallId::cuCtxSetLimit>(driver);

    measure_made<CallId::cuModuleLoadDataEx, CallId::cuModuleUnload>(driver);
    measure_made<CallId::cuLibraryLoadData, CallId::cuLibraryUnload>(driver);
    measure<CallId::cuModuleUnload>(driver);
    measure<CallId::cuLibraryUnload>(driver);
    measure<CallId::cuModuleGetFunction>(driver);
    measure<CallId::cuModuleGetGlobal_v2>(driver);
    measure<CallId::cuLibraryGetModule>(driver);
    measure<CallId::cuLibraryGetGlobal>(driver);
    measure<CallId::cuKernelGetFunction>(driver);
    measure_first<CallId::cuLaunchKernel, 0>(driver);
    measure_first<CallId::cuLaunchKernelEx, 1>(driver);
    measure_first<CallId::cuLaunchCooperativeKernel, 0>(driver);
}

}  // namespace rgpu::worker
