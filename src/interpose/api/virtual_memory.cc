// SPDX-License-Identifier: Apache-2.0
// Virtual memory management and memory of other processes: which addresses are memory, the client
// must know. Memory of the host is the client's own (mirror/host_pieces.h).
#include <algorithm>

#include "interpose/api/shareable.h"
#include "interpose/mirror/addresses.h"
#include "interpose/mirror/host_pieces.h"
#include "interpose/span/address_space.h"
#include "interpose/state/shareable.h"
#include "interpose/stream/read_ahead.h"
#include "interpose/stream/sync_copies.h"
#include "interpose/stub/by_hand.h"
#include "interpose/stub/stub.h"

namespace rgpu::interpose::own {

namespace {

CUresult device_access(CUdeviceptr base, size_t bytes, const CUmemAccessDesc *desc, size_t count)
{
    CUresult r = remote<CallId::cuMemSetAccess>(base, bytes, desc, count);
    if (r) return r;
    // What any device may do, copies may: they go by whichever may.
    unsigned most = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    for (size_t i = 0; i < count; i++) most = std::max<unsigned>(most, desc[i].flags);
    note_access(base, bytes, static_cast<CUmemAccess_flags>(most));
    return CUDA_SUCCESS;
}

CUresult device_unmap(CUdeviceptr base, size_t bytes)
{
    CUresult r = remote<CallId::cuMemUnmap>(base, bytes);
    if (!r) forget_mappings(base, bytes);
    return r;
}

// What a server checks where memory is its own.
CUresult check_access(const CUmemAccessDesc *desc, size_t count)
{
    if (!session()) return not_ready();
    if (!desc || !count) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        const CUmemLocation &l = desc[i].location;
        if (desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
            desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
            desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
            return CUDA_ERROR_INVALID_VALUE;
        if (host_pieces::is_host(l)) continue;
        if (l.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
        if (!device(l.id)) return CUDA_ERROR_INVALID_DEVICE;
    }
    return CUDA_SUCCESS;
}

// Goes through a range that host memory is mapped in: `host` gets whole mappings, `others` what
// lies between them.
template <class Host, class Others>
CUresult for_pieces(CUdeviceptr base, size_t bytes, Host host, Others others)
{
    const CUdeviceptr end = base + bytes;
    for (auto p = host_pieces::next(base); p && p->base < end;
         p = host_pieces::next(p->base + p->bytes))
        if (p->base < base || p->bytes > end - p->base) return CUDA_ERROR_INVALID_VALUE;
    while (base < end) {
        const auto piece = host_pieces::next(base);
        const bool here = piece && piece->base == base;
        const CUdeviceptr to = here                         ? base + piece->bytes
                               : piece && piece->base < end ? piece->base
                                                            : end;
        if (CUresult r = here ? host(base, to - base) : others(base, to - base)) return r;
        base = to;
    }
    return CUDA_SUCCESS;
}

}  // namespace

CUresult cuMemAddressReserve(CUdeviceptr *out, size_t bytes, size_t alignment, CUdeviceptr hint,
                             unsigned long long flags)
{
    return in_one_space(
        out, [&] { return bytes; },
        [&] { return remote<CallId::cuMemAddressReserve>(out, bytes, alignment, hint, flags); },
        [&](CUdeviceptr p) { remote<CallId::cuMemAddressFree>(p, bytes); },
        [&] {
            if (out) note_reservation(*out, bytes);
        });
}

CUresult cuMemAddressFree(CUdeviceptr base, size_t bytes)
{
    if (host_pieces::meets(base, bytes)) return CUDA_ERROR_INVALID_VALUE;
    CUresult r = remote<CallId::cuMemAddressFree>(base, bytes);
    if (!r) forget_reservation(base);
    return r;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *out, size_t bytes, const CUmemAllocationProp *p,
                     unsigned long long flags)
{
    if (p && host_pieces::is_host(p->location)) return host_pieces::create(out, bytes, *p, flags);
    CUresult r = remote<CallId::cuMemCreate>(out, bytes, p, flags);
    if (r == CUDA_ERROR_OUT_OF_MEMORY && shareable::any()) {
        tell_closed(kAllClosed);
        r = remote<CallId::cuMemCreate>(out, bytes, p, flags);
    }
    if (!r && out) *out = memory_for_program(*out);
    return r;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    if (host_pieces::is_host(handle)) return host_pieces::release(handle);
    At at;
    handle = memory_for_server(handle, at);
    CUresult r = remote<CallId::cuMemRelease>(handle);
    tell_closed(kSomeClosed);
    return r;
}

CUresult cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *p,
                                       CUmemAllocationGranularity_flags option)
{
    if (p && host_pieces::is_host(p->location)) return host_pieces::granularity(bytes, *p);
    return remote<CallId::cuMemGetAllocationGranularity>(bytes, p, option);
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *out,
                                                CUmemGenericAllocationHandle handle)
{
    if (host_pieces::is_host(handle)) return host_pieces::properties(out, handle);
    At at;
    handle = memory_for_server(handle, at);
    return remote<CallId::cuMemGetAllocationPropertiesFromHandle>(out, handle);
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *out, void *address)
{
    if (const auto host = out ? host_pieces::retain(reinterpret_cast<CUdeviceptr>(address))
                              : std::nullopt) {
        *out = *host;
        return CUDA_SUCCESS;
    }
    At at;
    if (const auto owner = spanning() ? owner_of_address(reinterpret_cast<CUdeviceptr>(address))
                                      : std::nullopt)
        at.go(owner->server);
    CUresult r = remote<CallId::cuMemRetainAllocationHandle>(out, address);
    if (!r && out) *out = memory_for_program(*out);
    return r;
}

CUresult cuMemMap(CUdeviceptr base, size_t bytes, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    if (host_pieces::is_host(handle)) {
        At at;
        if (const auto owner = spanning() ? owner_of_address(base) : std::nullopt)
            at.go(owner->server);
        return flags ? CUDA_ERROR_INVALID_VALUE : host_pieces::map(base, bytes, offset, handle);
    }
    if (host_pieces::meets(base, bytes)) return CUDA_ERROR_INVALID_VALUE;
    if (spanning()) {
        // Addresses were reserved at one server, and memory of another cannot be there.
        if (handle >> kServerShift != here()) return CUDA_ERROR_INVALID_VALUE;
        handle &= kOwnBits;
    }
    CUresult r = remote<CallId::cuMemMap>(base, bytes, offset, handle, flags);
    if (!r) note_allocation(base, bytes, true);
    return r;
}

CUresult cuMemSetAccess(CUdeviceptr base, size_t bytes, const CUmemAccessDesc *desc, size_t count)
{
    if (!host_pieces::meets(base, bytes)) return device_access(base, bytes, desc, count);
    if (CUresult r = check_access(desc, count)) return r;
    return for_pieces(
        base, bytes,
        [&](CUdeviceptr at, size_t) { return host_pieces::set_access(at, desc, count); },
        [&](CUdeviceptr at, size_t n) { return device_access(at, n, desc, count); });
}

CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
                        CUdeviceptr address)
{
    if (location && host_pieces::meets(address, 1))
        return host_pieces::get_access(flags, *location, address);
    return remote<CallId::cuMemGetAccess>(flags, location, address);
}

CUresult cuMemUnmap(CUdeviceptr base, size_t bytes)
{
    if (!host_pieces::meets(base, bytes)) return device_unmap(base, bytes);
    return for_pieces(
        base, bytes, [](CUdeviceptr at, size_t) { return host_pieces::unmap(at); }, device_unmap);
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address)
{
    read_ahead::written_elsewhere();
    sync_copies::others_look();
    client_counter(Counter::exported) = 1;
    return remote<CallId::cuIpcGetMemHandle>(handle, address);
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *out, CUipcMemHandle handle, unsigned int flags)
{
    read_ahead::written_elsewhere();
    sync_copies::others_look();
    CUresult r = remote<CallId::cuIpcOpenMemHandle_v2>(out, handle, flags);
    if (r) return r;
    CUdeviceptr base = 0;
    size_t bytes = 0;
    if ((r = remote<CallId::cuMemGetAddressRange_v2>(&base, &bytes, *out))) return r;
    note_imported(base, bytes);
    return CUDA_SUCCESS;
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *out, CUipcMemHandle handle, unsigned int flags)
{
    return own::cuIpcOpenMemHandle_v2(out, handle, flags);
}

CUresult cuIpcCloseMemHandle(CUdeviceptr base)
{
    CUresult r = remote<CallId::cuIpcCloseMemHandle>(base);
    if (!r) forget_allocation(base);
    return r;
}

}  // namespace rgpu::interpose::own
