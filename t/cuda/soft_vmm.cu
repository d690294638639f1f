// SPDX-License-Identifier: Apache-2.0
// Virtual memory management: memory and addresses apart, and how they come together.
#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CHECK(call) expect(call, CUDA_SUCCESS, #call, __LINE__)
#define FAILS(call, error) expect(call, error, #call, __LINE__)
#define TRUE(x) \
    do \
        if (!(x)) printf("line %d: not true: %s\n", __LINE__, #x), exit(1); \
    while (0)

static void expect(CUresult got, CUresult wanted, const char *call, int line)
{
    if (got == wanted) return;
    const char *a = "?", *b = "?";
    cuGetErrorName(got, &a);
    cuGetErrorName(wanted, &b);
    printf("line %d: %s gave %s, not %s\n", line, call, a, b);
    exit(1);
}

__global__ void add_one(int *p, size_t n)
{
    size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    if (i < n) p[i]++;
}

static bool on_softgpu()
{
    char name[100];
    CHECK(cuDeviceGetName(name, sizeof name, 0));
    return strstr(name, "software");
}

// What no driver promises (to refuse handles that are released, and what lies behind memory) is
// asked of rgpu and the software GPU alone. contrib/gpu-check sets this.
static bool by_rgpu() { return !getenv("RGPU_CHECK_DIRECTLY"); }

static size_t free_bytes()
{
    size_t free, total;
    CHECK(cuMemGetInfo(&free, &total));
    return free;
}

// A driver that maps memory may need some for itself.
static bool free_is(size_t bytes)
{
    const size_t now = free_bytes(), for_itself = on_softgpu() ? 0 : 64 << 20;
    return now <= bytes + for_itself && bytes <= now + for_itself;
}

int main()
{
    CUcontext c;
    CUdevice d;
    int supported = 0;
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&d, 0));
    CHECK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                               d));
    TRUE(supported);
    CHECK(cuDevicePrimaryCtxRetain(&c, d));
    CHECK(cuCtxSetCurrent(c));

    CUmemAllocationProp prop{};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = d;
    size_t page = 0;
    CHECK(cuMemGetAllocationGranularity(&page, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    TRUE(page && page % 4096 == 0);

    // Memory is counted when it is made, addresses never.
    const size_t before = free_bytes();
    CUdeviceptr base, again;
    CHECK(cuMemAddressReserve(&base, size_t(64) << 30, 0, 0, 0));
    CHECK(cuMemAddressReserve(&again, page, 8 * page, 0, 0));
    TRUE(again % (8 * page) == 0);
    TRUE(free_bytes() == before);
    CUmemGenericAllocationHandle first, second;
    CHECK(cuMemCreate(&first, page, &prop, 0));
    CHECK(cuMemCreate(&second, 2 * page, &prop, 0));
    TRUE(free_bytes() == before - 3 * page);
    FAILS(cuMemCreate(&first, page + 1, &prop, 0), CUDA_ERROR_INVALID_VALUE);
    CUmemGenericAllocationHandle none;
    // A driver may have more than it says.
    FAILS(cuMemCreate(&none, (before / page + before / page / 8 + 1) * page, &prop, 0),
          CUDA_ERROR_OUT_OF_MEMORY);

    // Two allocations in a row are one stretch of memory; without access they are none.
    CHECK(cuMemMap(base, page, 0, first, 0));
    CHECK(cuMemMap(base + page, 2 * page, 0, second, 0));
    FAILS(cuMemMap(base + 2 * page, page, 0, first, 0), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuMemMap(again + page, page, 0, first, 0), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuMemAddressFree(base, size_t(64) << 30), CUDA_ERROR_INVALID_VALUE);
    if (on_softgpu()) FAILS(cuMemsetD32(base, 1, 10), CUDA_ERROR_INVALID_VALUE);
    CUmemAccessDesc access{prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    FAILS(cuMemSetAccess(base, 4 * page, &access, 1), CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemSetAccess(base, 3 * page, &access, 1));
    unsigned long long flags = 0;
    CHECK(cuMemGetAccess(&flags, &access.location, base + page + 100));
    TRUE(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    const size_t n = 3 * page / 4;
    CHECK(cuMemsetD32(base, 41, n));
    if (on_softgpu()) FAILS(cuMemsetD32(base, 41, n + 1), CUDA_ERROR_INVALID_VALUE);
    add_one<<<(n + 255) / 256, 256>>>((int *)base, n);
    std::vector<int> host(n);
    CHECK(cuMemcpyDtoH(host.data(), base, 4 * n));
    for (int x : host) TRUE(x == 42);
    FAILS(cuMemFree(base), CUDA_ERROR_INVALID_VALUE);

    // The same memory at a second address, which stays when all else about it is gone.
    CHECK(cuMemMap(again, page, 0, first, 0));
    CHECK(cuMemSetAccess(again, page, &access, 1));
    CHECK(cuMemsetD32(again, 7, 1));
    CHECK(cuMemcpyDtoH(host.data(), base, 8));
    TRUE(host[0] == 7 && host[1] == 42);
    CHECK(cuMemRelease(first));
    CHECK(cuMemRelease(second));
    if (by_rgpu()) FAILS(cuMemRelease(second), CUDA_ERROR_INVALID_VALUE);
    TRUE(free_is(before - 3 * page));
    CHECK(cuMemUnmap(base, 3 * page));
    // To NVIDIA's driver nothing is left to do.
    if (on_softgpu()) FAILS(cuMemUnmap(base, 3 * page), CUDA_ERROR_INVALID_VALUE);
    TRUE(free_is(before - page));
    CHECK(cuMemcpyDtoH(host.data(), again, 8));
    TRUE(host[0] == 7 && host[1] == 42);
    CHECK(cuMemRetainAllocationHandle(&first, (void *)(again + 100)));
    CUmemAllocationProp seen{};
    CHECK(cuMemGetAllocationPropertiesFromHandle(&seen, first));
    TRUE(seen.location.id == d && seen.type == CU_MEM_ALLOCATION_TYPE_PINNED);
    CHECK(cuMemUnmap(again, page));
    CHECK(cuMemMap(base, page, 0, first, 0));
    CHECK(cuMemSetAccess(base, page, &access, 1));
    CHECK(cuMemcpyDtoH(host.data(), base, 8));
    TRUE(host[0] == 7 && host[1] == 42);
    CHECK(cuMemUnmap(base, page));
    CHECK(cuMemRelease(first));
    CHECK(cuMemAddressFree(base, size_t(64) << 30));
    CHECK(cuMemAddressFree(again, page));
    FAILS(cuMemAddressFree(again, page), CUDA_ERROR_INVALID_VALUE);
    TRUE(free_is(before));

    // A kernel that touches what is mapped no more.
    add_one<<<1, 1>>>((int *)base, 1);
    FAILS(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
}
