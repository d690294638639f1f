// SPDX-License-Identifier: Apache-2.0
// Memory pools of the program's own memory: what cuMemPoolCreate makes with a location of the host
// (CU_MEM_LOCATION_TYPE_HOST, HOST_NUMA).
//
// What a pool gives is pinned memory (mirror.h), which kernels find at the same address. A pool is
// known here only; the server sees memory that kernels may use, and events behind what is freed.
//
// All functions: any thread.
#pragma once

#include <optional>

#include "calls/cuda_api.h"

namespace rgpu::interpose::host_pools {

bool is_host(CUmemoryPool);

// As the calls of these names, for pools of the host. NOT_SUPPORTED for memory that other processes
// could open, and in a stream that is being captured.
CUresult create(CUmemoryPool *, const CUmemPoolProps &);
CUresult destroy(CUmemoryPool);
CUresult get_attribute(CUmemoryPool, CUmemPool_attribute, uint64_t &);
CUresult set_attribute(CUmemoryPool, CUmemPool_attribute, uint64_t);
CUresult trim(CUmemoryPool);
CUresult set_access(CUmemoryPool, const CUmemAccessDesc *, size_t count);
CUresult get_access(CUmemAccess_flags *, CUmemoryPool, const CUmemLocation &);
CUresult allocate(CUdeviceptr *, size_t bytes, CUmemoryPool, CUstream);

// Frees memory of such a pool behind the stream's work, or behind all work of the context. Nothing
// where a pool did not give the address.
std::optional<CUresult> free_behind(CUdeviceptr, CUstream);
std::optional<CUresult> free(CUdeviceptr);
// Whether a pool gave the address.
bool owns(CUdeviceptr);

// The default pool of a location, and its present one.
CUresult default_of(CUmemoryPool *, const CUmemLocation &);
CUresult present_of(CUmemoryPool *, const CUmemLocation &);
CUresult set_present(const CUmemLocation &, CUmemoryPool);

}  // namespace rgpu::interpose::host_pools
