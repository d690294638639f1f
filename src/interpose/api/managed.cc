// SPDX-License-Identifier: Apache-2.0
// Hints about managed memory: where it should be, who will use it. There is one place on each side,
// so that they change nothing that can be seen but what they say when they are asked back.
#include "interpose/mirror/mirror.h"
#include "interpose/state/advices.h"
#include "interpose/state/ranges.h"
#include "interpose/stub/by_hand.h"
#include "interpose/stub/stub.h"

namespace rgpu::interpose::own {

namespace {

// The managed allocation that holds the range, or an error.
CUresult managed(CUdeviceptr address, size_t bytes, DeviceRange &range)
{
    if (!session()) return not_ready();
    auto r = find_device(address);
    if (!bytes || !r || !r->managed || bytes > r->bytes - (address - r->base))
        return CUDA_ERROR_INVALID_VALUE;
    range = *r;
    return CUDA_SUCCESS;
}

CUresult check(CUmemLocation l)
{
    switch (l.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
        return device(l.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT: return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult prefetch(CUdeviceptr address, size_t bytes, CUmemLocation to, CUstream stream)
{
    DeviceRange range;
    HandleId id = 0;
    if (CUresult r = managed(address, bytes, range)) return r;
    if (CUresult r = check(to)) return r;
    if (CUresult r = detail::id_in(stream, id)) return r;
    advices().prefetched(address, bytes, to);
    return CUDA_SUCCESS;
}

CUresult advise(CUdeviceptr address, size_t bytes, CUmem_advise what, CUmemLocation l)
{
    DeviceRange range;
    if (CUresult r = managed(address, bytes, range)) return r;
    if (calls::names_location(what))
        if (CUresult r = check(l)) return r;
    return advices().advise(address, bytes, what, l);
}

}  // namespace

CUresult cuMemPrefetchAsync(CUdeviceptr address, size_t bytes, CUdevice d, CUstream stream)
{
    return prefetch(address, bytes, calls::location_of(d), stream);
}
CUresult cuMemPrefetchAsync_v2(CUdeviceptr address, size_t bytes, CUmemLocation to,
                               unsigned int flags, CUstream stream)
{
    return flags ? CUDA_ERROR_INVALID_VALUE : prefetch(address, bytes, to, stream);
}

CUresult cuMemAdvise(CUdeviceptr address, size_t bytes, CUmem_advise what, CUdevice d)
{
    return advise(address, bytes, what, calls::location_of(d));
}
CUresult cuMemAdvise_v2(CUdeviceptr address, size_t bytes, CUmem_advise what, CUmemLocation l)
{
    return advise(address, bytes, what, l);
}

CUresult cuMemRangeGetAttributes(void **data, size_t *rooms, CUmem_range_attribute *which,
                                 size_t count, CUdeviceptr address, size_t bytes)
{
    DeviceRange range;
    if (CUresult r = managed(address, bytes, range)) return r;
    if (!data || !rooms || !which || !count) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++)
        if (CUresult r = advices().attribute(data[i], rooms[i], which[i], address, bytes)) return r;
    return CUDA_SUCCESS;
}
CUresult cuMemRangeGetAttribute(void *data, size_t room, CUmem_range_attribute which,
                                CUdeviceptr address, size_t bytes)
{
    return own::cuMemRangeGetAttributes(&data, &room, &which, 1, address, bytes);
}

CUresult cuStreamAttachMemAsync(CUstream stream, CUdeviceptr address, size_t bytes,
                                unsigned int flags)
{
    DeviceRange range;
    HandleId id = 0;
    if (CUresult r = managed(address, bytes ? bytes : 1, range)) return r;
    if (CUresult r = detail::id_in(stream, id)) return r;
    const bool known = flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST ||
                       flags == CU_MEM_ATTACH_SINGLE;
    if (!known || address != range.base || (bytes && bytes != range.bytes))
        return CUDA_ERROR_INVALID_VALUE;
    // What is not for all streams the program may use while others work.
    mirror::set_any_time(address, flags != CU_MEM_ATTACH_GLOBAL);
    return CUDA_SUCCESS;
}

}  // namespace rgpu::interpose::own
