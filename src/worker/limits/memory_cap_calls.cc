// SPDX-License-Identifier: Apache-2.0
// The calls that take or tell device memory, in front of the driver's. Graphs, and contexts with
// what is in them, have files of their own.
#include <algorithm>

#include "worker/limits/memory_cap_front.h"

namespace rgpu::worker {

namespace {

std::atomic<MemoryCap *> enforced = nullptr;  // the process's

using namespace capped;

// --- linear and managed

// `call` makes linear memory of so many bytes.
CUresult allocate_linear(CUdeviceptr *address, uint64_t bytes, const MemoryCap::Call &call)
{
    MemoryCap &cap = the_cap();
    const int device = cap.current_device();
    if (!cap.has(device) || !bytes) return call();
    if (bytes > kSharesPages) {
        uint64_t held = 0;
        CUresult r = cap.sized(device, bytes, held, call);
        if (!r) cap.linear.hold(*address, {device, held});
        return r;
    }
    // Where it lies says whether it takes a page: until then one is counted.
    if (!cap.take(device, kMemoryPage)) {
        // It may fit into a page that is there.
        if (!cap.linear.has_shared_pages()) return CUDA_ERROR_OUT_OF_MEMORY;
        if (CUresult r = call()) return r;
        const uint64_t fresh = cap.linear.new_pages(*address, bytes);
        if (fresh && !cap.took(device, fresh)) {
            REAL(cuMemFree_v2)(*address);
            cap.look(device);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        cap.linear.hold_small(*address, {device, bytes});
        return CUDA_SUCCESS;
    }
    CUresult r = call();
    const uint64_t fresh = r ? 0 : cap.linear.new_pages(*address, bytes);
    if (!r) cap.linear.hold_small(*address, {device, bytes});
    // It lies in two pages at most.
    if (fresh > kMemoryPage && !cap.took(device, fresh - kMemoryPage)) {
        cap.linear.freed(*address);
        cap.give(device, kMemoryPage);
        REAL(cuMemFree_v2)(*address);
        cap.look(device);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    cap.give(device, kMemoryPage - std::min(fresh, kMemoryPage));
    return r;
}

CUresult allocate(CUdeviceptr *address, size_t bytes)
{
    Entry cap;
    return allocate_linear(address, bytes, [&] { return REAL(cuMemAlloc_v2)(address, bytes); });
}

// NVIDIA's comes to the device when it is touched: only its size says what it may take.
CUresult allocate_managed(CUdeviceptr *address, size_t bytes, unsigned flags)
{
    Entry cap;
    return allocate_linear(address, bytes,
                           [&] { return REAL(cuMemAllocManaged)(address, bytes, flags); });
}

CUresult allocate_pitch(CUdeviceptr *address, size_t *pitch, size_t width, size_t height,
                        unsigned element)
{
    Entry cap;
    constexpr uint64_t kMostAlignment =
        512;  // a row begins where the driver likes, which is at least 32 bytes
    const uint64_t bytes =
        times(add(width, kMostAlignment - 1) / kMostAlignment * kMostAlignment, height);
    if (cap->has(cap->current_device()) && bytes > cap->cap(cap->current_device()))
        return CUDA_ERROR_OUT_OF_MEMORY;
    return allocate_linear(address, bytes, [&] {
        return REAL(cuMemAllocPitch_v2)(address, pitch, width, height, element);
    });
}

// What a pool's memory counts for when its pool can be asked no more, or is asked now.
void pooled_is_freed(const std::pair<CUmemoryPool, Held> &gone)
{
    const auto &[pool, held] = gone;
    if (the_cap().pools.device_of(pool))
        the_cap().refresh(held.device);
    else
        the_cap().give(held.device, held.bytes);
}

void pooled_is_freed(CUdeviceptr address)
{
    if (const auto gone = the_cap().pools.freed(address)) pooled_is_freed(*gone);
}

// Linear or pooled memory that is being freed: it is not known at its address any more, which the
// driver may give to another at any moment, and it counts until the driver has it back.
class BeingFreed {
public:
    explicit BeingFreed(CUdeviceptr address)
        : address_(address), linear_(the_cap().linear.freed(address)),
          pooled_(the_cap().pools.freed(address))
    {}

    void is_free() const
    {
        if (linear_)
            the_cap().give(linear_->device, linear_->bytes);
        else if (pooled_)
            pooled_is_freed(*pooled_);
        else if (const int device = the_cap().current_device(); the_cap().has(device))
            the_cap().refresh(device);
    }

    void stays() const
    {
        if (linear_) the_cap().linear.stays(address_, *linear_);
        if (pooled_) the_cap().pools.hold(address_, pooled_->first, pooled_->second);
    }

private:
    CUdeviceptr address_;
    std::optional<LinearMemory::Freed> linear_;
    std::optional<std::pair<CUmemoryPool, Held>> pooled_;
};

// The driver waits for the device's work first. Other calls go on meanwhile: the work may be
// waiting for what they bring.
CUresult free_linear(CUdeviceptr address)
{
    std::optional<BeingFreed> memory;
    {
        Entry cap;
        memory.emplace(address);
    }
    const CUresult r = REAL(cuMemFree_v2)(address);
    Entry cap;
    r ? memory->stays() : memory->is_free();
    return r;
}

template <CallId Id> CUresult free_later(CUdeviceptr address, CUstream stream)
{
    Entry cap;
    if (CUresult r = cap->real.call<Id>()(address, stream)) return r;
    const auto gone = cap->linear.freed(address);
    CUevent event = nullptr;
    if (!gone)
        pooled_is_freed(address);
    else if (gone->bytes && !REAL(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING) &&
             !REAL(cuEventRecord)(event, stream))
        cap->leaving.add(event, *gone);  // the device has it until the stream gets there
    else
        cap->give(gone->device, gone->bytes);
    return CUDA_SUCCESS;
}

// --- pools

// The device whose memory a pool gives; -1 where that is the host's.
int device_of(CUmemoryPool pool)
{
    if (const auto known = the_cap().pools.device_of(pool)) return *known;
    int device = the_cap().current_device();
    for (int d = 0; the_cap().has(d); d++)
        if (CUmemoryPool own = nullptr; !REAL(cuDeviceGetDefaultMemPool)(&own, d) && own == pool)
            device = d;
    if (the_cap().has(device)) the_cap().pools.add(pool, device);
    return device;
}

CUresult create_pool(CUmemoryPool *pool, const CUmemPoolProps *props)
{
    Entry cap;
    CUresult r = REAL(cuMemPoolCreate)(pool, props);
    if (!r && cap->has(props->location.id))  // the host's counts as the device's of that number
        cap->pools.add(*pool, props->location.id);
    return r;
}

bool is_capturing(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return REAL(cuStreamIsCapturing) && !REAL(cuStreamIsCapturing)(stream, &status) &&
           status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

// In a stream that is being captured the graph gets a node instead.
CUresult capture_allocation(int device, size_t bytes, const MemoryCap::Call &call)
{
    the_cap().graphs.seen();
    if (the_cap().has(device) && bytes > the_cap().cap(device)) return CUDA_ERROR_OUT_OF_MEMORY;
    return the_cap().graphs.nodes_take_memory() ? the_cap().told(device, whole_pages(bytes), call)
                                                : call();
}

CUresult allocate_pooled(CUdeviceptr *address, size_t bytes, CUmemoryPool pool, CUstream stream,
                         const MemoryCap::Call &call)
{
    MemoryCap *cap = &the_cap();
    const int device = pool ? device_of(pool) : -1;
    if (!cap->has(device) || !cap->is_strict()) return call();
    if (is_capturing(stream)) return capture_allocation(device, bytes, call);
    cuuint64_t reserved = 0, used = 0;
    REAL(cuMemPoolGetAttribute)(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved);
    REAL(cuMemPoolGetAttribute)(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used);
    const uint64_t idle = reserved - std::min(reserved, used);
    // The software GPU's pools tell what they gave out, not the pages that it lies in.
    const uint64_t wanted = cap->is_software ? whole_pages(bytes) : bytes;
    if (CUresult r = cap->told(device, wanted - std::min(wanted, idle), call)) return r;
    if (cap->used(device) > cap->cap(device)) {
        // The pool grew by more than was asked for. It gives that back when the stream gets there.
        REAL(cuMemFreeAsync)(*address, stream);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    cap->pools.hold(*address, pool, {device, (bytes + 511) / 512 * 512});
    return CUDA_SUCCESS;
}

template <CallId Id> CUresult allocate_async(CUdeviceptr *address, size_t bytes, CUstream stream)
{
    Entry cap;
    CUmemoryPool pool = nullptr;
    const int device = cap->device_of(stream);
    if (device >= 0) REAL(cuDeviceGetMemPool)(&pool, device);
    return allocate_pooled(address, bytes, pool, stream,
                           [&] { return the_cap().real.call<Id>()(address, bytes, stream); });
}

template <CallId Id>
CUresult allocate_from_pool(CUdeviceptr *address, size_t bytes, CUmemoryPool pool, CUstream stream)
{
    Entry cap;
    return allocate_pooled(address, bytes, pool, stream,
                           [&] { return the_cap().real.call<Id>()(address, bytes, pool, stream); });
}

CUresult destroy_pool(CUmemoryPool pool)
{
    Entry cap;
    const auto device = cap->pools.device_of(pool);
    if (!device) return REAL(cuMemPoolDestroy)(pool);
    cap->refresh(*device);
    if (CUresult r = REAL(cuMemPoolDestroy)(pool)) return r;
    const Held gone = cap->pools.destroyed(pool);
    cap->give(gone.device, gone.bytes);
    return CUDA_SUCCESS;
}

CUresult trim_pool(CUmemoryPool pool, size_t keep)
{
    Entry cap;
    CUresult r = REAL(cuMemPoolTrimTo)(pool, keep);
    if (const auto device = cap->pools.device_of(pool)) cap->refresh(*device);
    return r;
}

// --- virtual memory

CUresult create_physical(CUmemGenericAllocationHandle *handle, size_t bytes,
                         const CUmemAllocationProp *prop, unsigned long long flags)
{
    Entry cap;
    auto call = [&] { return REAL(cuMemCreate)(handle, bytes, prop, flags); };
    if (!prop) return call();
    // Memory of the server's host that GPUs reach counts as a GPU's: there is no other bound on it.
    const bool on_device = prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
    const int device = on_device ? prop->location.id : std::max(cap->current_device(), 0);
    uint64_t held = 0;
    CUresult r = cap->sized(device, bytes, held, call);
    if (!r) cap->physical.made(*handle, {device, held});
    return r;
}

CUresult release_physical(CUmemGenericAllocationHandle handle)
{
    Entry cap;
    if (CUresult r = REAL(cuMemRelease)(handle)) return r;
    if (const auto gone = cap->physical.released(handle)) cap->give(gone->device, gone->bytes);
    return CUDA_SUCCESS;
}

CUresult retain_physical(CUmemGenericAllocationHandle *handle, void *address)
{
    Entry cap;
    CUresult r = REAL(cuMemRetainAllocationHandle)(handle, address);
    if (!r) cap->physical.retained(*handle);
    return r;
}

CUresult map_physical(CUdeviceptr address, size_t bytes, size_t offset,
                      CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    Entry cap;
    CUresult r = REAL(cuMemMap)(address, bytes, offset, handle, flags);
    if (!r) cap->physical.mapped(address, bytes, handle);
    return r;
}

CUresult unmap_physical(CUdeviceptr address, size_t bytes)
{
    Entry cap;
    if (CUresult r = REAL(cuMemUnmap)(address, bytes)) return r;
    for (const Held &gone : cap->physical.unmapped(address, bytes))
        cap->give(gone.device, gone.bytes);
    return CUDA_SUCCESS;
}

// --- arrays

uint64_t bytes_of(CUarray_format format)
{
    switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8: return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF: return 2;
    default: return 4;
    }
}

// As it says itself. Formats of blocks and planes have less than four bytes a texel, and most
// layouts are not padded to more than twice the size, at which small ones have a few pages.
MemoryCap::Bounds bounds_of(uint64_t width, uint64_t height, uint64_t depth, uint64_t texel,
                            bool exact)
{
    const uint64_t bytes = times(
        times(times(width, std::max<uint64_t>(height, 1)), std::max<uint64_t>(depth, 1)), texel);
    return {exact ? bytes : bytes / 8, add(times(bytes, 4), 4 * kMemoryPage)};
}

bool is_plain(CUarray_format format) { return format <= CU_AD_FORMAT_FLOAT; }

MemoryCap::Bounds bounds_of(const CUDA_ARRAY_DESCRIPTOR *d)
{
    if (!d) return {};
    return bounds_of(d->Width, d->Height, 1, bytes_of(d->Format) * d->NumChannels,
                     is_plain(d->Format));
}

// Sparse ones and those that are mapped later have no memory of their own; layers of a cubemap
// count as its depth.
MemoryCap::Bounds bounds_of(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
    if (!d) return {};
    const bool has_memory = !(d->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING));
    return bounds_of(d->Width, d->Height, d->Depth, bytes_of(d->Format) * d->NumChannels,
                     has_memory && is_plain(d->Format));
}

template <CallId Id, CallId Undo> void measure_array(Driver &driver)
{
    driver.replace<Id>([](auto *made, auto *descriptor, auto... a) -> CUresult {
        Entry cap;
        return make_measured(
            cap->current_device(), made,
            [&] { return the_cap().real.call<Id>()(made, descriptor, a...); },
            [](auto handle) { return the_cap().real.call<Undo>()(handle); }, bounds_of(descriptor));
    });
}

// --- other processes' memory

// What keeps another process's memory alive, and is given up by `undo`: `bytes` of it, on `device`.
template <class Undo> bool counts(int device, uint64_t bytes, Undo undo)
{
    if (bytes && the_cap().take(device, bytes)) return true;
    undo();
    return false;
}

CUresult import_physical(CUmemGenericAllocationHandle *handle, void *from,
                         CUmemAllocationHandleType type)
{
    Entry cap;
    const uint64_t bytes = cap->take_coming();
    CUmemAllocationProp properties{};
    if (CUresult r = REAL(cuMemImportFromShareableHandle)(handle, from, type)) return r;
    // This process's own, which counts already.
    if (cap->physical.of(*handle)) return cap->physical.retained(*handle), CUDA_SUCCESS;
    const auto undo = [&] { REAL(cuMemRelease)(*handle); };
    if (CUresult r = REAL(cuMemGetAllocationPropertiesFromHandle)(&properties, *handle))
        return undo(), r;
    const bool on_device = properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE;
    const int device = on_device ? properties.location.id : std::max(cap->current_device(), 0);
    if (cap->has(device)) {
        if (!counts(device, bytes, undo)) return CUDA_ERROR_OUT_OF_MEMORY;
        cap->physical.made(*handle, {device, bytes});
    }
    return CUDA_SUCCESS;
}

// What memory of another process counts for on the current device, now that it is at `address`;
// nothing where that device has no cap.
std::optional<Held> held_of_others(Entry &cap, CUdeviceptr address)
{
    CUdeviceptr base = 0;
    size_t bytes = 0;
    const int device = cap->current_device();
    if (!cap->has(device) || REAL(cuMemGetAddressRange_v2)(&base, &bytes, address)) return {};
    return Held{device, whole_pages(bytes)};
}

CUresult import_pooled(CUdeviceptr *address, CUmemoryPool pool, CUmemPoolPtrExportData *data)
{
    Entry cap;
    if (CUresult r = REAL(cuMemPoolImportPointer)(address, pool, data)) return r;
    const auto held = held_of_others(cap, *address);
    if (!held) return CUDA_SUCCESS;
    if (!counts(held->device, held->bytes, [&] { REAL(cuMemFree_v2)(*address); }))
        return CUDA_ERROR_OUT_OF_MEMORY;
    cap->linear.hold(*address, *held);
    return CUDA_SUCCESS;
}

// Whoever opened it keeps it alive when the process that made it has freed it, and no longer counts
// it: so it counts here.
template <CallId Id>
CUresult open_shared(CUdeviceptr *address, CUipcMemHandle handle, unsigned flags)
{
    Entry cap;
    if (CUresult r = cap->real.call<Id>()(address, handle, flags)) return r;
    const auto held = held_of_others(cap, *address);
    if (!held) return CUDA_SUCCESS;
    if (!cap->opened.is_open(*address) && !cap->take(held->device, held->bytes)) {
        REAL(cuIpcCloseMemHandle)(*address);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    cap->opened.open(*address, *held);
    return CUDA_SUCCESS;
}

CUresult close_shared(CUdeviceptr address)
{
    Entry cap;
    if (CUresult r = REAL(cuIpcCloseMemHandle)(address)) return r;
    if (const auto gone = cap->opened.closed(address)) cap->give(gone->device, gone->bytes);
    return CUDA_SUCCESS;
}

// --- what is told

CUresult memory_info(size_t *free, size_t *total)
{
    Entry cap;
    size_t real_free = 0, real_total = 0;
    CUresult r = REAL(cuMemGetInfo_v2)(&real_free, &real_total);
    const int device = r ? -1 : cap->current_device();
    if (device < 0) return r;
    const bool limited = cap->is_limited(device);
    if (free) *free = limited ? std::min<uint64_t>(real_free, cap->left(device)) : real_free;
    if (total) *total = std::min<uint64_t>(real_total, cap->cap(device));
    return CUDA_SUCCESS;
}

CUresult total_memory(size_t *bytes, CUdevice device)
{
    CUresult r = REAL(cuDeviceTotalMem_v2)(bytes, device);
    if (!r) *bytes = std::min<uint64_t>(*bytes, the_cap().cap(device));
    return r;
}

}  // namespace

MemoryCap *memory_cap() { return enforced; }

void put_in_front(Driver &driver, MemoryCap &cap)
{
    enforced = &cap;
    driver.replace<CallId::cuMemGetInfo_v2>(memory_info);
    driver.replace<CallId::cuDeviceTotalMem_v2>(total_memory);

    driver.replace<CallId::cuMemAlloc_v2>(allocate);
    driver.replace<CallId::cuMemAllocPitch_v2>(allocate_pitch);
    driver.replace<CallId::cuMemAllocManaged>(allocate_managed);
    driver.replace<CallId::cuMemFree_v2>(free_linear);
    driver.replace<CallId::cuMemFreeAsync>(free_later<CallId::cuMemFreeAsync>);
    driver.replace<CallId::cuMemFreeAsync_ptsz>(free_later<CallId::cuMemFreeAsync_ptsz>);
    driver.replace<CallId::cuMemAllocAsync>(allocate_async<CallId::cuMemAllocAsync>);
    driver.replace<CallId::cuMemAllocAsync_ptsz>(allocate_async<CallId::cuMemAllocAsync_ptsz>);
    driver.replace<CallId::cuMemAllocFromPoolAsync>(
        allocate_from_pool<CallId::cuMemAllocFromPoolAsync>);
    driver.replace<CallId::cuMemAllocFromPoolAsync_ptsz>(
        allocate_from_pool<CallId::cuMemAllocFromPoolAsync_ptsz>);
    driver.replace<CallId::cuMemPoolCreate>(create_pool);
    driver.replace<CallId::cuMemPoolDestroy>(destroy_pool);
    driver.replace<CallId::cuMemPoolTrimTo>(trim_pool);

    driver.replace<CallId::cuMemCreate>(create_physical);
    driver.replace<CallId::cuMemRelease>(release_physical);
    driver.replace<CallId::cuMemRetainAllocationHandle>(retain_physical);
    driver.replace<CallId::cuMemMap>(map_physical);
    driver.replace<CallId::cuMemUnmap>(unmap_physical);

    driver.replace<CallId::cuMemImportFromShareableHandle>(import_physical);
    driver.replace<CallId::cuMemPoolImportPointer>(import_pooled);
    driver.replace<CallId::cuIpcOpenMemHandle>(open_shared<CallId::cuIpcOpenMemHandle>);
    driver.replace<CallId::cuIpcOpenMemHandle_v2>(open_shared<CallId::cuIpcOpenMemHandle_v2>);
    driver.replace<CallId::cuIpcCloseMemHandle>(close_shared);

    measure_array<CallId::cuArrayCreate_v2, CallId::cuArrayDestroy>(driver);
    measure_array<CallId::cuArray3DCreate_v2, CallId::cuArrayDestroy>(driver);
    measure_array<CallId::cuMipmappedArrayCreate, CallId::cuMipmappedArrayDestroy>(driver);
    measure_waiting_end<CallId::cuArrayDestroy>(driver);
    measure_waiting_end<CallId::cuMipmappedArrayDestroy>(driver);

    put_graphs_in_front(driver);
    put_code_in_front(driver);
}

}  // namespace rgpu::worker
