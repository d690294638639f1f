// SPDX-License-Identifier: Apache-2.0
// Virtual memory management of host memory, as XGBoost uses it: pieces of memory lie one behind the
// other and move to other addresses with what is in them. Kernels, copies and the program read and
// write them.
#include "check.h"

#include <cstdint>
#include <numeric>

__global__ void add(int *data, int n, int by)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        data[i] += by;
}

static CUmemAllocationProp properties(CUmemLocationType type, int id)
{
    CUmemAllocationProp p{};
    p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.location = {type, id};
    return p;
}

static void grant(CUdeviceptr base, size_t bytes)
{
    const CUmemAccessDesc both[] = {
        {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
        {{CU_MEM_LOCATION_TYPE_HOST_NUMA, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE}};
    DRIVER(cuMemSetAccess(base, bytes, both, 2));
}

static void check_refusals(size_t piece)
{
    CUmemGenericAllocationHandle h;
    auto current = properties(CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 0);
    DRIVER_FAILS(cuMemCreate(&h, piece, &current, 0), CUDA_ERROR_INVALID_VALUE);
    auto far = properties(CU_MEM_LOCATION_TYPE_HOST_NUMA, 4711);
    DRIVER_FAILS(cuMemCreate(&h, piece, &far, 0), CUDA_ERROR_INVALID_VALUE);
    auto host = properties(CU_MEM_LOCATION_TYPE_HOST, 0);
    DRIVER_FAILS(cuMemCreate(&h, piece - 4096, &host, 0), CUDA_ERROR_INVALID_VALUE);
    host.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    DRIVER_FAILS(cuMemCreate(&h, piece, &host, 0), CUDA_ERROR_INVALID_VALUE);
    if (by_rgpu()) DRIVER_FAILS(cuMemRelease(~0ull), CUDA_ERROR_INVALID_VALUE);

    host.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
    DRIVER(cuMemCreate(&h, piece, &host, 0));
    REFUSED(cuMemMap(piece, piece, 0, h, 0), CUDA_ERROR_INVALID_VALUE);
    CUdeviceptr base;
    DRIVER(cuMemAddressReserve(&base, piece, 0, 0, 0));
    REFUSED(cuMemMap(base, 2 * piece, 0, h, 0), CUDA_ERROR_INVALID_VALUE);
    REFUSED(cuMemMap(base, piece, piece, h, 0), CUDA_ERROR_INVALID_VALUE);
    DRIVER(cuMemMap(base, piece, 0, h, 0));
    REFUSED(cuMemMap(base, piece, 0, h, 0), CUDA_ERROR_INVALID_VALUE);
    REFUSED(cuMemAddressFree(base, piece), CUDA_ERROR_INVALID_VALUE);
    REFUSED(cuMemFreeHost(reinterpret_cast<void *>(base)), CUDA_ERROR_INVALID_VALUE);
    DRIVER(cuMemUnmap(base, piece));
    // To NVIDIA's driver nothing is left to do.
    const CUresult again = cuMemUnmap(base, piece);
    TRUE(again == CUDA_ERROR_INVALID_VALUE || (!again && !on_softgpu()));
    DRIVER(cuMemAddressFree(base, piece));
    DRIVER(cuMemRelease(h));
    if (by_rgpu()) DRIVER_FAILS(cuMemRelease(h), CUDA_ERROR_INVALID_VALUE);
}

static void check_answers(CUdeviceptr base, CUmemGenericAllocationHandle handle)
{
    unsigned long long flags = 0;
    CUmemLocation device{CU_MEM_LOCATION_TYPE_DEVICE, 0};
    CUmemLocation host{CU_MEM_LOCATION_TYPE_HOST_NUMA, 0};
    DRIVER(cuMemGetAccess(&flags, &device, base + 4096));
    TRUE(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    DRIVER(cuMemGetAccess(&flags, &host, base));
    TRUE(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    unsigned type = 0;
    DRIVER(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, base));
    TRUE(type == CU_MEMORYTYPE_HOST);
    CUmemGenericAllocationHandle again;
    DRIVER(cuMemRetainAllocationHandle(&again, reinterpret_cast<void *>(base)));
    TRUE(again == handle);
    CUmemAllocationProp p;
    DRIVER(cuMemGetAllocationPropertiesFromHandle(&p, again));
    TRUE(p.location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA);
    DRIVER(cuMemRelease(again));
}

int main()
{
    CHECK(cudaFree(nullptr));
    size_t piece = 0;
    auto node = properties(CU_MEM_LOCATION_TYPE_HOST_NUMA, 0);
    DRIVER(cuMemGetAllocationGranularity(&piece, &node, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
    TRUE(piece >= 4096);
#if CUDA_VERSION >= 12090
    int can = 0;
    DRIVER(cuDeviceGetAttribute(
        &can, CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0));
    TRUE(can == 1);
#endif
    check_refusals(piece);

    // Two pieces are one array. Copies take it as pinned memory.
    const int n = static_cast<int>(2 * piece / sizeof(int));
    CUmemGenericAllocationHandle handles[2];
    CUdeviceptr base;
    DRIVER(cuMemAddressReserve(&base, 2 * piece, 0, 0, 0));
    for (int i = 0; i < 2; i++) {
        DRIVER(cuMemCreate(&handles[i], piece, &node, 0));
        DRIVER(cuMemMap(base + i * piece, piece, 0, handles[i], 0));
    }
    grant(base, 2 * piece);
    check_answers(base + piece, handles[1]);
    int *host = reinterpret_cast<int *>(base);
    std::iota(host, host + n, 0);
    int *device;
    CHECK(cudaMalloc(&device, 2 * piece));
    CHECK(cudaMemcpy(device, host, 2 * piece, cudaMemcpyDefault));
    add<<<8, 128>>>(device, n, 1);
    CHECK(cudaMemcpyAsync(host, device, 2 * piece, cudaMemcpyDefault));
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < n; i++) TRUE(host[i] == i + 1);

    // A kernel works on it in place, from an address in the first piece into the second.
    add<<<8, 128>>>(host, n, 10);
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < n; i++) TRUE(host[i] == i + 11);
    host[n - 1] = 7;
    CHECK(cudaMemcpy(device, host, 2 * piece, cudaMemcpyDefault));
    CHECK(cudaMemset(host, 0, piece));
    CHECK(cudaMemcpy(host, device, 2 * piece, cudaMemcpyDefault));
    TRUE(host[0] == 11 && host[n - 1] == 7);

    // It moves, a third piece comes behind it, and what is in it moves with it.
    add<<<8, 128>>>(host, n, 100);
    CHECK(cudaDeviceSynchronize());
    DRIVER(cuMemUnmap(base, 2 * piece));
    DRIVER(cuMemAddressFree(base, 2 * piece));
    CUdeviceptr larger;
    CUmemGenericAllocationHandle third;
    DRIVER(cuMemAddressReserve(&larger, 3 * piece, 0, 0, 0));
    for (int i = 0; i < 2; i++) DRIVER(cuMemMap(larger + i * piece, piece, 0, handles[i], 0));
    grant(larger, 2 * piece);
    host = reinterpret_cast<int *>(larger);
    TRUE(host[0] == 111 && host[n - 1] == 107);
    add<<<8, 128>>>(host, n, 1000);
    DRIVER(cuMemCreate(&third, piece, &node, 0));
    DRIVER(cuMemMap(larger + 2 * piece, piece, 0, third, 0));
    grant(larger + 2 * piece, piece);
    DRIVER(cuMemRelease(third));
    add<<<8, 128>>>(host, n * 3 / 2, 1);
    CHECK(cudaDeviceSynchronize());
    TRUE(host[0] == 1112 && host[n - 1] == 1108 && host[n] == 1 && host[n * 3 / 2 - 1] == 1);

    DRIVER(cuMemUnmap(larger, 3 * piece));
    DRIVER(cuMemAddressFree(larger, 3 * piece));
    for (auto h : handles) DRIVER(cuMemRelease(h));
    CHECK(cudaFree(device));
    return right();
}
