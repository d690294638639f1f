// Virtual memory management and memory of other processes: which addresses are memory, the client
// must know.
#include "interpose/mirror/addresses.h"
#include "interpose/span/address_space.h"
#include "interpose/stream/read_ahead.h"
#include "interpose/stream/sync_copies.h"
#include "interpose/stub/by_hand.h"
#include "interpose/stub/stub.h"

namespace rgpu::interpose::own {

namespace {

// A driver's handle of memory is any number to us: where several servers are, its highest byte says
// whose it is.
constexpr int kServerShift = 56;
constexpr CUmemGenericAllocationHandle kOwnBits = (1ull << kServerShift) - 1;

CUmemGenericAllocationHandle for_program(CUmemGenericAllocationHandle h)
{
    return spanning() ? h | CUmemGenericAllocationHandle{here()} << kServerShift : h;
}
// The server's handle; `at` goes there.
CUmemGenericAllocationHandle for_server(CUmemGenericAllocationHandle h, At &at)
{
    if (!spanning()) return h;
    const auto server = static_cast<unsigned>(h >> kServerShift);
    if (server < server_count() && server != here()) at.go(server);
    return h & kOwnBits;
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
    CUresult r = remote<CallId::cuMemAddressFree>(base, bytes);
    if (!r) forget_reservation(base);
    return r;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *out, size_t bytes, const CUmemAllocationProp *p,
                     unsigned long long flags)
{
    CUresult r = remote<CallId::cuMemCreate>(out, bytes, p, flags);
    if (!r && out) *out = for_program(*out);
    return r;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    At at;
    handle = for_server(handle, at);
    return remote<CallId::cuMemRelease>(handle);
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *out,
                                                CUmemGenericAllocationHandle handle)
{
    At at;
    handle = for_server(handle, at);
    return remote<CallId::cuMemGetAllocationPropertiesFromHandle>(out, handle);
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *out, void *address)
{
    At at;
    if (const auto owner = spanning() ? owner_of_address(reinterpret_cast<CUdeviceptr>(address))
                                      : std::nullopt)
        at.go(owner->server);
    CUresult r = remote<CallId::cuMemRetainAllocationHandle>(out, address);
    if (!r && out) *out = for_program(*out);
    return r;
}

CUresult cuMemMap(CUdeviceptr base, size_t bytes, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags)
{
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
    CUresult r = remote<CallId::cuMemSetAccess>(base, bytes, desc, count);
    if (r) return r;
    bool allowed = false;
    for (size_t i = 0; i < count; i++) allowed |= desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
    note_access(base, bytes, allowed);
    return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr base, size_t bytes)
{
    CUresult r = remote<CallId::cuMemUnmap>(base, bytes);
    if (!r) forget_mappings(base, bytes);
    return r;
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address)
{
    read_ahead::written_elsewhere();
    settled::others_look();
    return remote<CallId::cuIpcGetMemHandle>(handle, address);
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *out, CUipcMemHandle handle, unsigned int flags)
{
    read_ahead::written_elsewhere();
    settled::others_look();
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
