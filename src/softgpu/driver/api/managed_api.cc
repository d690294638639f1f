// Managed memory: CUDA Driver API, "Unified Addressing": prefetches, advice, attributes of ranges.
// It is in one place that host and devices share, so nothing ever moves.
#include <cstring>
#include <optional>

#include "softgpu/driver/api/export.h"
#include "softgpu/driver/base/advice.h"
#include "softgpu/driver/graph/capture.h"
#include "softgpu/driver/state/context.h"
#include "softgpu/driver/state/current.h"
#include "softgpu/driver/state/driver.h"
#include "softgpu/driver/state/memory.h"
#include "softgpu/driver/state/stream.h"

namespace rgpu::softgpu::driver {

namespace {

constexpr CUmemLocation kNowhere = {CU_MEM_LOCATION_TYPE_INVALID, 0};

CUresult managed(CUdeviceptr address, size_t bytes)
{
    auto range = driver().ranges.find(address);
    return bytes && range && range->memory == Memory::managed &&
                   driver().ranges.contains(address, bytes)
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

// The first versions of the calls name a device, or CU_DEVICE_CPU.
CUmemLocation location_of(CUdevice d)
{
    if (d == CU_DEVICE_CPU) return {CU_MEM_LOCATION_TYPE_HOST, 0};
    return {CU_MEM_LOCATION_TYPE_DEVICE, d};
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
    advices().change(address, bytes, [&](Advice &a) { a.prefetched = location; });
    return CUDA_SUCCESS;
}

CUresult prefetch(CUdeviceptr address, size_t bytes, CUdevice d, CUstream stream)
{
    return prefetch_to(address, bytes, location_of(d), 0, stream);
}

CUresult advise_to(CUdeviceptr address, size_t bytes, CUmem_advise advice, CUmemLocation location)
{
    Context *c;
    if (CUresult rc = usable_context(c)) return rc;
    if (CUresult rc = managed(address, bytes)) return rc;
    const bool needs_location = advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION ||
                                advice == CU_MEM_ADVISE_SET_ACCESSED_BY ||
                                advice == CU_MEM_ADVISE_UNSET_ACCESSED_BY;
    if (needs_location)
        if (CUresult rc = check(location)) return rc;
    const int who = location.type == CU_MEM_LOCATION_TYPE_DEVICE ? location.id : CU_DEVICE_CPU;
    std::function<void(Advice &)> change;
    switch (advice) {
    case CU_MEM_ADVISE_SET_READ_MOSTLY: change = [](Advice &a) { a.read_mostly = true; }; break;
    case CU_MEM_ADVISE_UNSET_READ_MOSTLY: change = [](Advice &a) { a.read_mostly = false; }; break;
    case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
        change = [&](Advice &a) { a.preferred = location; };
        break;
    case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
        change = [](Advice &a) { a.preferred = kNowhere; };
        break;
    case CU_MEM_ADVISE_SET_ACCESSED_BY:
        change = [&](Advice &a) { a.accessed_by.insert(who); };
        break;
    case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
        change = [&](Advice &a) { a.accessed_by.erase(who); };
        break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    advices().change(address, bytes, change);
    return CUDA_SUCCESS;
}

CUresult advise(CUdeviceptr address, size_t bytes, CUmem_advise advice, CUdevice d)
{
    return advise_to(address, bytes, advice, location_of(d));
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

// --- attributes: what all of the range has, or that it has not one

bool same(const CUmemLocation &a, const CUmemLocation &b)
{
    return a.type == b.type && a.id == b.id;
}

CUmemLocation common(CUdeviceptr address, size_t bytes, CUmemLocation Advice::*which)
{
    std::optional<CUmemLocation> all;
    advices().look(address, bytes, [&](const Advice &a) {
        all = !all || same(*all, a.*which) ? a.*which : kNowhere;
    });
    return all.value_or(kNowhere);
}

int as_device(const CUmemLocation &l)
{
    return l.type == CU_MEM_LOCATION_TYPE_DEVICE    ? l.id
           : l.type == CU_MEM_LOCATION_TYPE_INVALID ? static_cast<int>(CU_DEVICE_INVALID)
                                                    : static_cast<int>(CU_DEVICE_CPU);
}

CUresult range_attribute(void *data, size_t room, CUmem_range_attribute which, CUdeviceptr address,
                         size_t bytes)
{
    Context *c;
    if (CUresult rc = usable_context(c)) return rc;
    if (!data) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult rc = managed(address, bytes)) return rc;
    int value = 0;
    switch (which) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
        value = 1;
        advices().look(address, bytes, [&](const Advice &a) { value &= a.read_mostly; });
        break;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
        value = as_device(common(address, bytes, &Advice::preferred));
        break;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
        value = as_device(common(address, bytes, &Advice::prefetched));
        break;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
        value = common(address, bytes, &Advice::preferred).type;
        break;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
        value = common(address, bytes, &Advice::preferred).id;
        break;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
        value = common(address, bytes, &Advice::prefetched).type;
        break;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
        value = common(address, bytes, &Advice::prefetched).id;
        break;
    case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY: {
        if (!room || room % sizeof(int)) return CUDA_ERROR_INVALID_VALUE;
        std::optional<std::set<int>> all;
        advices().look(address, bytes, [&](const Advice &a) {
            if (!all) all = a.accessed_by;
            std::erase_if(*all, [&](int who) { return !a.accessed_by.count(who); });
        });
        auto *out = static_cast<int *>(data);
        for (size_t i = 0; i < room / sizeof(int); i++) out[i] = CU_DEVICE_INVALID;
        for (size_t i = 0; int who : all.value_or(std::set<int>{}))
            if (i < room / sizeof(int)) out[i++] = who;
        return CUDA_SUCCESS;
    }
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    if (room != sizeof value) return CUDA_ERROR_INVALID_VALUE;
    memcpy(data, &value, sizeof value);
    return CUDA_SUCCESS;
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
