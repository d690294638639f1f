// Virtual memory management and memory of other processes: which addresses are memory, the client must know.
#include "interpose/memory.h"
#include "interpose/own.h"
#include "interpose/read_ahead.h"
#include "interpose/settled.h"
#include "interpose/stub.h"

namespace rgpu::interpose::own {

CUresult cuMemMap(CUdeviceptr base, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags)
{
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
