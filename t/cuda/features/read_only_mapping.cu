// SPDX-License-Identifier: Apache-2.0
// Virtual memory: one piece of memory at two addresses, one of which may only be read.
#include "check.h"

__global__ void copy(const int *from, int *to) { to[threadIdx.x] = from[threadIdx.x]; }

int main()
{
    CHECK(cudaFree(nullptr));
    CUmemAllocationProp prop = {};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    size_t size = 0;
    DRIVER(cuMemGetAllocationGranularity(&size, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    CUmemGenericAllocationHandle memory;
    CUdeviceptr both, only;
    DRIVER(cuMemCreate(&memory, size, &prop, 0));
    DRIVER(cuMemAddressReserve(&both, size, 0, 0, 0));
    DRIVER(cuMemAddressReserve(&only, size, 0, 0, 0));
    DRIVER(cuMemMap(both, size, 0, memory, 0));
    DRIVER(cuMemMap(only, size, 0, memory, 0));
    CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    DRIVER(cuMemSetAccess(both, size, &access, 1));
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
    DRIVER(cuMemSetAccess(only, size, &access, 1));
    unsigned long long flags = 0;
    DRIVER(cuMemGetAccess(&flags, &prop.location, only));
    TRUE(flags == CU_MEM_ACCESS_FLAGS_PROT_READ);

    int in[32], out[32];
    for (int i = 0; i < 32; i++) in[i] = 5 * i;
    DRIVER(cuMemcpyHtoD(both, in, sizeof in));
    copy<<<1, 32>>>((const int *)only, (int *)(both + 1024));
    DRIVER(cuMemcpyDtoH(out, only + 1024, sizeof out));
    for (int i = 0; i < 32; i++) TRUE(out[i] == 5 * i);
    DRIVER_FAILS(cuMemcpyHtoD(only, in, sizeof in), CUDA_ERROR_INVALID_VALUE);
    DRIVER_FAILS(cuMemsetD8(only, 0, 16), CUDA_ERROR_INVALID_VALUE);
    copy<<<1, 32>>>((const int *)both, (int *)only);
    FAILS(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
    return right();
}
