// SPDX-License-Identifier: Apache-2.0
// Managed memory: CUDA Driver API, "Unified Addressing": prefetches, advice, attributes of ranges.
// It is in one place that host and devices share, so nothing ever moves.
#include "calls/advice.h"
#include "softgpu/driver/api/export.h"
#include "softgpu/driver/graph/capture.h"
#include "softgpu/driver/state/context.h"
#include "softgpu/driver/state/current.h"
#include "softgpu/driver/state/driver.h"
#include "softgpu/driver/state/memory.h"
#include "softgpu/driver/state/stream.h"

namespace rgpu::softgpu::driver {

namespace {

CUresult managed(CUdeviceptr address, size_t bytes)
{
    auto range = driver().ranges.find(address);
    return bytes && range && range->memory == Memory::managed &&
                   driver().ranges.contains(address, bytes)
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

CUresult check(const CUmemLocation &l)
{
    switch (l.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
        return find_device(l.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT: return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult prefetch_to(CUdeviceptr address, size_t bytes, CUmemLocation location, unsigned flags,
                     CUstream stream)
{
    std::shared_ptr<Stream> s;
    if (CUresult rc = find_stream(stream, s)) return rc;
    if (flags) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult rc = check(location)) return rc;
    if (CUresult rc = managed(address, bytes)) return rc;
    if (CUresult rc = may_work(*s)) return rc;
    driver().advices.prefetched(address, bytes, location);
    return CUDA_SUCCESS;
}

CUresult prefetch(CUdeviceptr address, size_t bytes, CUdevice d, CUstream stream)
{
    return prefetch_to(address, bytes, calls::location_of(d), 0, stream);
}

CUresult advise_to(CUdeviceptr address, size_t bytes, CUmem_advise advice, CUmemLocation location)
{
    Context *c;
    if (CUresult rc = usable_context(c)) return rc;
    if (CUresult rc = managed(address, bytes)) return rc;
    if (calls::names_location(advice))
        if (CUresult rc = check(location)) return rc;
    return driver().advices.advise(address, bytes, advice, location);
}

CUresult advise(CUdeviceptr address, size_t bytes, CUmem_advise advice, CUdevice d)
{
    return advise_to(address, bytes, advice, calls::location_of(d));
}

CUresult attach(CUstream stream, CUdeviceptr address, size_t bytes, unsigned flags)
{
    std::shared_ptr<Stream> s;
    if (CUresult rc = find_stream(stream, s)) return rc;
    if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST &&
        flags != CU_MEM_ATTACH_SINGLE)
        return CUDA_ERROR_INVALID_VALUE;
    if (flags == CU_MEM_ATTACH_SINGLE && (!stream || stream == CU_STREAM_LEGACY))
        return CUDA_ERROR_INVALID_VALUE;
    auto range = driver().ranges.find(address);
    return range && range->base == address && (!bytes || bytes == range->bytes)
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

CUresult range_attribute(void *data, size_t room, CUmem_range_attribute which, CUdeviceptr address,
                         size_t bytes)
{
    Context *c;
    if (CUresult rc = usable_context(c)) return rc;
    if (CUresult rc = managed(address, bytes)) return rc;
    return driver().advices.attribute(data, room, which, address, bytes);
}

CUresult range_attributes(void **data, size_t *rooms, CUmem_range_attribute *which, size_t count,
                          CUdeviceptr address, size_t bytes)
{
    if (!data || !rooms || !which || !count) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++)
        if (CUresult rc = range_attribute(data[i], rooms[i], which[i], address, bytes)) return rc;
    return CUDA_SUCCESS;
}

RGPU_EXPORT_PTSZ(cuMemPrefetchAsync, prefetch)
RGPU_EXPORT_PTSZ(cuMemPrefetchAsync_v2, prefetch_to)
RGPU_EXPORT(cuMemAdvise, advise)
RGPU_EXPORT(cuMemAdvise_v2, advise_to)
RGPU_EXPORT_PTSZ(cuStreamAttachMemAsync, attach)
RGPU_EXPORT(cuMemRangeGetAttribute, range_attribute)
RGPU_EXPORT(cuMemRangeGetAttributes, range_attributes)

}  // namespace

}  // namespace rgpu::softgpu::driver
