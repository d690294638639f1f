// Hints about managed memory: where it should be, who will use it. There is one place on each side,
// so that they change nothing that can be seen but what they say when they are asked back.
#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <set>

#include "interpose/mirror/mirror.h"
#include "interpose/state/client.h"
#include "interpose/state/ranges.h"
#include "interpose/stub/by_hand.h"
#include "interpose/stub/stub.h"

namespace rgpu::interpose::own {

namespace {

constexpr CUmemLocation kNowhere{CU_MEM_LOCATION_TYPE_INVALID, CU_DEVICE_INVALID};

struct Advice {
    uint64_t buffer = 0;  // of the allocation that it was given for
    bool read_mostly = false;
    CUmemLocation preferred = kNowhere, prefetched = kNowhere;
    std::set<int> accessed_by;
};

struct Advices {
    std::mutex mutex;
    std::map<CUdeviceptr, Advice> of;  // by the allocation's base
};

Advices &advices() { return client_part<Advices>(Part::advice); }

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

// With the lock held. An address may be another allocation's by now.
Advice &advice_of(const DeviceRange &range)
{
    Advice &a = advices().of[range.base];
    if (a.buffer != range.buffer_id) a = Advice(), a.buffer = range.buffer_id;
    return a;
}

CUmemLocation location_of(CUdevice d)
{
    if (d == CU_DEVICE_CPU) return {CU_MEM_LOCATION_TYPE_HOST, 0};
    return {CU_MEM_LOCATION_TYPE_DEVICE, d};
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
    std::lock_guard lock(advices().mutex);
    advice_of(range).prefetched = to;
    return CUDA_SUCCESS;
}

CUresult advise(CUdeviceptr address, size_t bytes, CUmem_advise what, CUmemLocation l)
{
    DeviceRange range;
    if (CUresult r = managed(address, bytes, range)) return r;
    const bool about_place = what != CU_MEM_ADVISE_SET_READ_MOSTLY &&
                             what != CU_MEM_ADVISE_UNSET_READ_MOSTLY &&
                             what != CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION;
    if (about_place)
        if (CUresult r = check(l)) return r;
    const int who = l.type == CU_MEM_LOCATION_TYPE_DEVICE ? l.id : CU_DEVICE_CPU;
    std::lock_guard lock(advices().mutex);
    Advice &a = advice_of(range);
    switch (what) {
    case CU_MEM_ADVISE_SET_READ_MOSTLY: a.read_mostly = true; break;
    case CU_MEM_ADVISE_UNSET_READ_MOSTLY: a.read_mostly = false; break;
    case CU_MEM_ADVISE_SET_PREFERRED_LOCATION: a.preferred = l; break;
    case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION: a.preferred = kNowhere; break;
    case CU_MEM_ADVISE_SET_ACCESSED_BY: a.accessed_by.insert(who); break;
    case CU_MEM_ADVISE_UNSET_ACCESSED_BY: a.accessed_by.erase(who); break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

// A location as the older attributes have it: one number.
int as_number(CUmemLocation l)
{
    if (l.type == CU_MEM_LOCATION_TYPE_DEVICE) return l.id;
    return l.type == CU_MEM_LOCATION_TYPE_INVALID ? CU_DEVICE_INVALID : CU_DEVICE_CPU;
}

CUresult attribute(void *data, size_t room, CUmem_range_attribute which, const Advice &a)
{
    if (!data || room < sizeof(int) || room % sizeof(int)) return CUDA_ERROR_INVALID_VALUE;
    if (which == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY) {
        auto out = static_cast<int *>(data);
        auto next = a.accessed_by.begin();
        for (size_t i = 0; i < room / sizeof(int); i++)
            out[i] = next == a.accessed_by.end() ? CU_DEVICE_INVALID : *next++;
        return CUDA_SUCCESS;
    }
    int value;
    switch (which) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY: value = a.read_mostly; break;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION: value = as_number(a.preferred); break;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION: value = as_number(a.prefetched); break;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
        value = static_cast<int>(a.preferred.type);
        break;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID: value = a.preferred.id; break;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
        value = static_cast<int>(a.prefetched.type);
        break;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID: value = a.prefetched.id; break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    if (room != sizeof value) return CUDA_ERROR_INVALID_VALUE;
    memcpy(data, &value, sizeof value);
    return CUDA_SUCCESS;
}

}  // namespace

CUresult cuMemPrefetchAsync(CUdeviceptr address, size_t bytes, CUdevice d, CUstream stream)
{
    return prefetch(address, bytes, location_of(d), stream);
}
CUresult cuMemPrefetchAsync_v2(CUdeviceptr address, size_t bytes, CUmemLocation to,
                               unsigned int flags, CUstream stream)
{
    return flags ? CUDA_ERROR_INVALID_VALUE : prefetch(address, bytes, to, stream);
}

CUresult cuMemAdvise(CUdeviceptr address, size_t bytes, CUmem_advise what, CUdevice d)
{
    return advise(address, bytes, what, location_of(d));
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
    std::lock_guard lock(advices().mutex);
    for (size_t i = 0; i < count; i++)
        if (CUresult r = attribute(data[i], rooms[i], which[i], advice_of(range))) return r;
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
