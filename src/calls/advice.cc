// SPDX-License-Identifier: Apache-2.0
#include "calls/advice.h"

#include <cstring>

namespace rgpu::calls {

namespace {

bool same(const CUmemLocation &a, const CUmemLocation &b)
{
    return a.type == b.type && a.id == b.id;
}

// A location as the older attributes have it: one number.
int as_device(const CUmemLocation &l)
{
    if (l.type == CU_MEM_LOCATION_TYPE_DEVICE) return l.id;
    return l.type == CU_MEM_LOCATION_TYPE_INVALID ? CU_DEVICE_INVALID : CU_DEVICE_CPU;
}

}  // namespace

CUmemLocation location_of(CUdevice d)
{
    if (d == CU_DEVICE_CPU) return {CU_MEM_LOCATION_TYPE_HOST, 0};
    return {CU_MEM_LOCATION_TYPE_DEVICE, d};
}

bool names_location(CUmem_advise what)
{
    return what == CU_MEM_ADVISE_SET_PREFERRED_LOCATION || what == CU_MEM_ADVISE_SET_ACCESSED_BY ||
           what == CU_MEM_ADVISE_UNSET_ACCESSED_BY;
}

// Under the lock: no piece reaches over `at`.
void Advices::split(uint64_t at)
{
    auto next = pieces_.upper_bound(at);
    if (next == pieces_.begin()) return;
    auto &[begin, piece] = *std::prev(next);
    if (begin == at || piece.end <= at) return;
    pieces_.emplace_hint(next, at, piece);
    piece.end = at;
}

void Advices::change(uint64_t address, uint64_t bytes, const std::function<void(Advice &)> &apply)
{
    const uint64_t end = address + bytes;
    std::lock_guard lock(mutex_);
    split(address);
    split(end);
    for (uint64_t at = address; at < end;) {
        auto it = pieces_.lower_bound(at);
        if (it == pieces_.end() || it->first > at) {
            const uint64_t until = it == pieces_.end() || it->first > end ? end : it->first;
            it = pieces_.emplace_hint(it, at, Piece{until, {}});
        }
        apply(it->second.advice);
        at = it->second.end;
    }
}

CUresult Advices::advise(uint64_t address, uint64_t bytes, CUmem_advise what, CUmemLocation l)
{
    const int who = l.type == CU_MEM_LOCATION_TYPE_DEVICE ? l.id : CU_DEVICE_CPU;
    std::function<void(Advice &)> apply;
    switch (what) {
    case CU_MEM_ADVISE_SET_READ_MOSTLY: apply = [](Advice &a) { a.read_mostly = true; }; break;
    case CU_MEM_ADVISE_UNSET_READ_MOSTLY: apply = [](Advice &a) { a.read_mostly = false; }; break;
    case CU_MEM_ADVISE_SET_PREFERRED_LOCATION: apply = [l](Advice &a) { a.preferred = l; }; break;
    case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
        apply = [](Advice &a) { a.preferred = kNowhere; };
        break;
    case CU_MEM_ADVISE_SET_ACCESSED_BY:
        apply = [who](Advice &a) { a.accessed_by.insert(who); };
        break;
    case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
        apply = [who](Advice &a) { a.accessed_by.erase(who); };
        break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    change(address, bytes, apply);
    return CUDA_SUCCESS;
}

void Advices::prefetched(uint64_t address, uint64_t bytes, CUmemLocation to)
{
    change(address, bytes, [to](Advice &a) { a.last_prefetched = to; });
}

Advices::Advice Advices::common(uint64_t address, uint64_t bytes) const
{
    const uint64_t end = address + bytes;
    std::lock_guard lock(mutex_);
    auto it = pieces_.upper_bound(address);
    if (it != pieces_.begin() && std::prev(it)->second.end > address) --it;
    // Of a range with a hole nothing holds for all of it.
    if (it == pieces_.end() || it->first > address) return {};
    Advice all = it->second.advice;
    while (it->second.end < end) {
        const uint64_t at = it->second.end;
        if (++it == pieces_.end() || it->first > at) return {};
        const Advice &one = it->second.advice;
        all.read_mostly = all.read_mostly && one.read_mostly;
        if (!same(all.preferred, one.preferred)) all.preferred = kNowhere;
        if (!same(all.last_prefetched, one.last_prefetched)) all.last_prefetched = kNowhere;
        std::erase_if(all.accessed_by, [&](int who) { return !one.accessed_by.contains(who); });
    }
    return all;
}

CUresult Advices::attribute(void *data, size_t room, CUmem_range_attribute which, uint64_t address,
                            uint64_t bytes) const
{
    if (!data || !room || room % sizeof(int)) return CUDA_ERROR_INVALID_VALUE;
    const Advice a = common(address, bytes);
    if (which == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY) {
        auto out = static_cast<int *>(data);
        auto next = a.accessed_by.begin();
        for (size_t i = 0; i < room / sizeof(int); i++)
            out[i] = next == a.accessed_by.end() ? CU_DEVICE_INVALID : *next++;
        return CUDA_SUCCESS;
    }
    int value = 0;
    switch (which) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY: value = a.read_mostly; break;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION: value = as_device(a.preferred); break;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION: value = as_device(a.last_prefetched); break;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE: value = a.preferred.type; break;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID: value = a.preferred.id; break;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE: value = a.last_prefetched.type; break;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID: value = a.last_prefetched.id; break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    if (room != sizeof value) return CUDA_ERROR_INVALID_VALUE;
    memcpy(data, &value, sizeof value);
    return CUDA_SUCCESS;
}

void Advices::forget(uint64_t address, uint64_t bytes)
{
    std::lock_guard lock(mutex_);
    split(address);
    split(address + bytes);
    pieces_.erase(pieces_.lower_bound(address), pieces_.lower_bound(address + bytes));
}

}  // namespace rgpu::calls
