// SPDX-License-Identifier: Apache-2.0
// What is in structs whose form on the wire is their own.
#include "worker/calls/inspected.h"

#include "worker/session/session.h"

namespace rgpu::worker {

namespace {

template <class P> CUresult inspect_set(Session &s, const P &p)
{
    const unsigned __int128 width = static_cast<unsigned __int128>(p.width) * p.elementSize;
    if (width >> 64) return CUDA_ERROR_INVALID_VALUE;
    return s.addresses.has_rows(p.dst, static_cast<uint64_t>(width), p.pitch, p.height)
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

CUresult inspect(Session &s, CUDA_MEMSET_NODE_PARAMS &p) { return inspect_set(s, p); }
CUresult inspect(Session &s, CUDA_MEMSET_NODE_PARAMS_v2 &p) { return inspect_set(s, p); }

CUresult inspect(Session &s, CUstreamBatchMemOpParams &p)
{
    const auto has = [&](CUdeviceptr address, uint64_t bytes) {
        return s.addresses.has(address, bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    };
    switch (p.operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32: return has(p.waitValue.address, 4);
    case CU_STREAM_MEM_OP_WAIT_VALUE_64: return has(p.waitValue.address, 8);
    case CU_STREAM_MEM_OP_WRITE_VALUE_32: return has(p.writeValue.address, 4);
    case CU_STREAM_MEM_OP_WRITE_VALUE_64: return has(p.writeValue.address, 8);
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
    case CU_STREAM_MEM_OP_BARRIER: return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
}

// Windows' security attributes.
CUresult inspect(Session &, CUmemAllocationProp &p)
{
    p.win32HandleMetaData = nullptr;
    return CUDA_SUCCESS;
}
CUresult inspect(Session &, CUmemPoolProps &p)
{
    p.win32SecurityAttributes = nullptr;
    return CUDA_SUCCESS;
}

}  // namespace rgpu::worker
