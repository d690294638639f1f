// SPDX-License-Identifier: Apache-2.0
// Virtual memory management of the program's own memory: what cuMemCreate makes with a location of
// the host (CU_MEM_LOCATION_TYPE_HOST, HOST_NUMA), and cuMemMap puts at addresses.
//
// The memory is a file in memory of this process, and mapped it is pinned memory (mirror.h):
// kernels find it at the same address. The server knows of it only while a kernel may use it.
//
// All functions: any thread.
#pragma once

#include <cstddef>
#include <optional>

#include "calls/cuda_api.h"

namespace rgpu::interpose::host_pieces {

// Whether a location is the host's.
bool is_host(const CUmemLocation &);
// Whether a handle is of memory of the host.
bool is_host(CUmemGenericAllocationHandle);

// Whether memory of the host can have these properties: SUCCESS or INVALID_VALUE.
CUresult check(const CUmemAllocationProp &);
// Asks the kernel to take the pages from a location's node. Without NUMA it does not matter that it
// refuses.
void prefer_node(void *, size_t bytes, const CUmemLocation &);

// As the calls of these names. `retain`: nothing where no host memory is mapped.
CUresult granularity(size_t *, const CUmemAllocationProp &);
CUresult create(CUmemGenericAllocationHandle *, size_t bytes, const CUmemAllocationProp &,
                unsigned long long flags);
CUresult release(CUmemGenericAllocationHandle);
CUresult properties(CUmemAllocationProp *, CUmemGenericAllocationHandle);
std::optional<CUmemGenericAllocationHandle> retain(CUdeviceptr);

// INVALID_VALUE where the program reserved no addresses, something is mapped, or the memory is not
// so long. NOT_SUPPORTED for bytes that are mapped elsewhere, too.
CUresult map(CUdeviceptr, size_t bytes, size_t offset, CUmemGenericAllocationHandle);

struct Piece {
    CUdeviceptr base = 0;
    size_t bytes = 0;
};
// The first mapping that ends behind an address.
std::optional<Piece> next(CUdeviceptr);
inline bool meets(CUdeviceptr base, size_t bytes)
{
    const auto piece = next(base);
    return piece && piece->base < base + bytes;
}

// The mapping that begins there. What a device or the program may do is only kept: this memory is
// always the program's to read and write.
CUresult unmap(CUdeviceptr base);
CUresult set_access(CUdeviceptr base, const CUmemAccessDesc *, size_t count);
// What cuMemGetAccess answers for the mapping that holds the address.
CUresult get_access(unsigned long long *flags, const CUmemLocation &, CUdeviceptr);

}  // namespace rgpu::interpose::host_pieces
