// SPDX-License-Identifier: Apache-2.0
// Stream-ordered memory: CUDA Driver API, "Stream Ordered Memory Allocator".
#include <fcntl.h>

#include <algorithm>
#include <cstring>

#include "softgpu/driver/api/export.h"
#include "softgpu/driver/base/shared_file.h"
#include "softgpu/driver/graph/capture.h"
#include "softgpu/driver/graph/graph_memory.h"
#include "softgpu/driver/graph/graph_work.h"
#include "softgpu/driver/graph/node_work.h"
#include "softgpu/driver/state/context.h"
#include "softgpu/driver/state/current.h"
#include "softgpu/driver/state/driver.h"
#include "softgpu/driver/state/memory.h"
#include "softgpu/driver/state/pool.h"
#include "softgpu/driver/state/stream.h"

namespace rgpu::softgpu::driver {

namespace {

CUresult allocate(CUdeviceptr *address, size_t bytes, const std::shared_ptr<Pool> &pool,
                  Stream &stream)
{
    if (!address || !bytes || pool->is_imported()) return CUDA_ERROR_INVALID_VALUE;
    // The address is needed now, so it is taken now; frees in any stream's order may still be to
    // come.
    uint64_t a = allocate_from(pool, bytes);
    if (!a) {
        if (CUresult rc = stream.context.synchronize()) return rc;
        a = allocate_from(pool, bytes);
    }
    if (!a) return CUDA_ERROR_OUT_OF_MEMORY;
    *address = a;
    return CUDA_SUCCESS;
}

// In a stream that is being captured the graph gets a node instead.
CUresult capture_alloc(CUdeviceptr *address, size_t bytes, Device &device, Stream &s)
{
    if (!address) return CUDA_ERROR_INVALID_VALUE;
    CUDA_MEM_ALLOC_NODE_PARAMS p = {};
    p.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, device.index};
    p.bytesize = bytes;
    WorkRef work;
    if (CUresult rc = make_alloc(&p, work)) return rc;
    const CUdeviceptr made = std::get<AllocWork>(*work).parameters.dptr;
    if (CUresult rc = capture_work(s, std::move(work))) return rc;
    *address = made;
    return CUDA_SUCCESS;
}

CUresult alloc_async(CUdeviceptr *address, size_t bytes, CUstream handle)
{
    std::shared_ptr<Stream> s;
    if (CUresult rc = find_stream(handle, s)) return rc;
    if (s->capturing) return capture_alloc(address, bytes, s->context.device, *s);
    if (CUresult rc = may_work(*s)) return rc;
    return allocate(address, bytes, s->context.device.pool(), *s);
}

CUresult alloc_from_pool(CUdeviceptr *address, size_t bytes, CUmemoryPool pool, CUstream handle)
{
    std::shared_ptr<Stream> s;
    if (CUresult rc = find_stream(handle, s)) return rc;
    auto p = driver().pools.find(pool);
    if (p && s->capturing) return capture_alloc(address, bytes, p->device, *s);
    if (CUresult rc = may_work(*s)) return rc;
    return p ? allocate(address, bytes, p, *s) : CUDA_ERROR_INVALID_VALUE;
}

CUresult free_async(CUdeviceptr address, CUstream handle)
{
    std::shared_ptr<Stream> s;
    if (CUresult rc = find_stream(handle, s)) return rc;
    if (s->capturing && address) {
        WorkRef work;
        if (CUresult rc = make_free(address, work)) return rc;
        return capture_work(*s, std::move(work));
    }
    if (CUresult rc = may_work(*s)) return rc;
    if (!address) return CUDA_SUCCESS;
    auto range = driver().ranges.find(address);
    if (!range || range->base != address || !range->on_device() ||
        range->memory == Memory::variable || range->memory == Memory::mapped ||
        range->memory == Memory::imported)
        return CUDA_ERROR_INVALID_VALUE;
    if (range->memory == Memory::graph) {
        auto memory = find_graph_memory(address);
        if (!memory || !memory->free()) return CUDA_ERROR_INVALID_VALUE;
        s->enqueue([memory] {});
        return CUDA_SUCCESS;
    }
    s->enqueue([address] { free_device(address); });
    return CUDA_SUCCESS;
}

CUresult create(CUmemoryPool *pool, const CUmemPoolProps *p)
{
    if (!pool || !p || p->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    const bool exportable = p->handleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    if ((p->handleTypes != CU_MEM_HANDLE_TYPE_NONE && !exportable) ||
        p->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_NOT_SUPPORTED;
    Device *device = find_device(p->location.id);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    auto made = std::make_shared<Pool>(*device, false);
    made->max_bytes = p->maxSize;
    if (exportable &&
        !made->make_exportable(p->maxSize ? std::min(p->maxSize, device->total) : device->total))
        return CUDA_ERROR_OUT_OF_MEMORY;
    *pool = driver().pools.add(made);
    return CUDA_SUCCESS;
}

CUresult destroy(CUmemoryPool handle)
{
    auto p = driver().pools.find(handle);
    if (!p || p->is_default) return CUDA_ERROR_INVALID_VALUE;
    // CUDA: a device that used it goes back to its default pool; what was allocated stays valid.
    if (p->device.pool() == p) p->device.set_pool(p->device.default_pool);
    driver().pools.remove(handle);
    return CUDA_SUCCESS;
}

CUresult get_attribute(CUmemoryPool handle, CUmemPool_attribute which, void *value)
{
    auto p = driver().pools.find(handle);
    return p && value ? p->attribute(which, value) : CUDA_ERROR_INVALID_VALUE;
}

CUresult set_attribute(CUmemoryPool handle, CUmemPool_attribute which, void *value)
{
    auto p = driver().pools.find(handle);
    return p && value ? p->set_attribute(which, value) : CUDA_ERROR_INVALID_VALUE;
}

CUresult trim(CUmemoryPool handle, size_t)
{
    return driver().pools.find(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// --- pools that other processes are given

CUresult export_pool(void *out, CUmemoryPool handle, CUmemAllocationHandleType type,
                     unsigned long long flags)
{
    auto p = driver().pools.find(handle);
    if (!out || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || !p || !p->file() ||
        p->is_imported())
        return CUDA_ERROR_INVALID_VALUE;
    const int fd = fcntl(p->file().get(), F_DUPFD_CLOEXEC, 0);
    if (fd < 0) return CUDA_ERROR_OPERATING_SYSTEM;
    memcpy(out, &fd, sizeof fd);
    return CUDA_SUCCESS;
}

CUresult import_pool(CUmemoryPool *pool, void *from, CUmemAllocationHandleType type,
                     unsigned long long flags)
{
    if (!pool || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_INVALID_VALUE;
    const int given = static_cast<int>(reinterpret_cast<intptr_t>(from));
    const auto file = exported_file(GivenAway::pool, given);
    if (!file || !file->bytes || file->bytes % Arena::kPage) return CUDA_ERROR_INVALID_VALUE;
    Device *device = device_named(file->device);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    Fd fd(fcntl(given, F_DUPFD_CLOEXEC, 0));
    if (!fd) return CUDA_ERROR_OPERATING_SYSTEM;
    auto made = std::make_shared<Pool>(*device, false);
    if (!made->import(std::move(fd), file->bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    *pool = driver().pools.add(made);
    return CUDA_SUCCESS;
}

// What CUmemPoolPtrExportData holds: where in the pool's file an allocation is.
struct ExportedPointer {
    uint32_t magic = 0, unused = 0;
    uint64_t offset = 0, bytes = 0;
};
constexpr uint32_t kExportedMagic = 0x5050'4C41;
static_assert(sizeof(ExportedPointer) <= sizeof(CUmemPoolPtrExportData));

CUresult export_pointer(CUmemPoolPtrExportData *out, CUdeviceptr address)
{
    auto range = driver().ranges.find(address);
    if (!out || !range || range->base != address || !range->pool || !range->pool->file() ||
        range->pool->is_imported())
        return CUDA_ERROR_INVALID_VALUE;
    const ExportedPointer place{kExportedMagic, 0, address - range->pool->base(), range->bytes};
    memset(out, 0, sizeof *out);
    memcpy(out, &place, sizeof place);
    return CUDA_SUCCESS;
}

CUresult import_pointer(CUdeviceptr *address, CUmemoryPool handle, CUmemPoolPtrExportData *data)
{
    auto p = driver().pools.find(handle);
    if (!address || !data || !p || !p->is_imported()) return CUDA_ERROR_INVALID_VALUE;
    ExportedPointer place;
    memcpy(static_cast<void *>(&place), data, sizeof place);
    if (place.magic != kExportedMagic || place.offset % Arena::kUnit || !place.bytes ||
        place.offset > p->bytes() || place.bytes > p->bytes() - place.offset)
        return CUDA_ERROR_INVALID_VALUE;
    Range r;
    r.base = p->base() + place.offset;
    r.bytes = place.bytes;
    r.device = p->device.index;
    r.pool = p;
    const uint64_t size = Arena::rounded(r.bytes);
    if (!p->count_taken(size)) return CUDA_ERROR_INVALID_VALUE;
    if (!driver().ranges.add(r)) {
        p->count_freed(size);
        return CUDA_ERROR_INVALID_VALUE;
    }
    *address = r.base;
    return CUDA_SUCCESS;
}

// Every device reaches the memory of every other, whatever is asked for.
CUresult set_access(CUmemoryPool handle, const CUmemAccessDesc *map, size_t count)
{
    auto p = driver().pools.find(handle);
    if (!p || (count && !map)) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        if (map[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
        if (!find_device(map[i].location.id)) return CUDA_ERROR_INVALID_DEVICE;
        if (map[i].location.id == p->device.index &&
            map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
            return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult get_access(CUmemAccess_flags *flags, CUmemoryPool handle, CUmemLocation *location)
{
    auto p = driver().pools.find(handle);
    if (!p || !flags || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    if (!find_device(location->id)) return CUDA_ERROR_INVALID_DEVICE;
    *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return CUDA_SUCCESS;
}

RGPU_EXPORT_PTSZ(cuMemAllocAsync, alloc_async)
RGPU_EXPORT_PTSZ(cuMemAllocFromPoolAsync, alloc_from_pool)
RGPU_EXPORT_PTSZ(cuMemFreeAsync, free_async)
RGPU_EXPORT(cuMemPoolCreate, create)
RGPU_EXPORT(cuMemPoolDestroy, destroy)
RGPU_EXPORT(cuMemPoolGetAttribute, get_attribute)
RGPU_EXPORT(cuMemPoolSetAttribute, set_attribute)
RGPU_EXPORT(cuMemPoolTrimTo, trim)
RGPU_EXPORT(cuMemPoolSetAccess, set_access)
RGPU_EXPORT(cuMemPoolGetAccess, get_access)
RGPU_EXPORT(cuMemPoolExportToShareableHandle, export_pool)
RGPU_EXPORT(cuMemPoolImportFromShareableHandle, import_pool)
RGPU_EXPORT(cuMemPoolExportPointer, export_pointer)
RGPU_EXPORT(cuMemPoolImportPointer, import_pointer)

}  // namespace

}  // namespace rgpu::softgpu::driver
