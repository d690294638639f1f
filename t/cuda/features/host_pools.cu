// SPDX-License-Identifier: Apache-2.0
// Memory pools of the host: what they give is read and written by the program and by kernels, and
// is freed in a stream's order.
#include "check.h"

#include <cstdint>

__global__ void add(int *data, int n, int by)
{
    for (int i = threadIdx.x; i < n; i += blockDim.x) data[i] += by;
}

constexpr int kCount = 100000;
constexpr size_t kBytes = kCount * sizeof(int);

static CUmemPoolProps properties(CUmemLocationType type, int id)
{
    CUmemPoolProps p{};
    p.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.location = {type, id};
    return p;
}

static uint64_t used(CUmemoryPool pool)
{
    uint64_t value = 1;
    DRIVER(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value));
    return value;
}

static void check_refusals()
{
    CUmemoryPool pool;
    auto p = properties(CU_MEM_LOCATION_TYPE_HOST_NUMA, 4711);
    DRIVER_FAILS(cuMemPoolCreate(&pool, &p), CUDA_ERROR_INVALID_VALUE);
    p = properties(CU_MEM_LOCATION_TYPE_HOST, 0);
    DRIVER_FAILS(cuMemPoolCreate(nullptr, &p), CUDA_ERROR_INVALID_VALUE);
    p.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    DRIVER_FAILS(cuMemPoolCreate(&pool, &p), CUDA_ERROR_INVALID_VALUE);
}

// Whether the pool counts so many bytes. A driver may count in larger units.
static bool uses(CUmemoryPool pool, uint64_t bytes)
{
    const uint64_t counted = used(pool);
    return by_rgpu() || !bytes ? counted == bytes : counted >= bytes && counted < bytes + 65536;
}

static void check_pool(CUmemoryPool pool, CUstream stream)
{
    CUdeviceptr at, more;
    CUmemAccessDesc device{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    DRIVER(cuMemPoolSetAccess(pool, &device, 1));
    CUmemAccess_flags flags;
    DRIVER(cuMemPoolGetAccess(&flags, pool, &device.location));
    TRUE(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    for (int round = 0; round < 20; round++) {
        DRIVER(cuMemAllocFromPoolAsync(&at, kBytes, pool, stream));
        TRUE(uses(pool, kBytes));
        DRIVER(cuStreamSynchronize(stream));  // it is there in the stream's order
        int *data = reinterpret_cast<int *>(at);
        for (int i = 0; i < kCount; i++) data[i] = i;
        add<<<1, 256, 0, stream>>>(data, kCount, round);
        DRIVER(cuStreamSynchronize(stream));
        for (int i = 0; i < kCount; i++) TRUE(data[i] == i + round);
        unsigned kind = 0;
        DRIVER(cuPointerGetAttribute(&kind, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at));
        TRUE(kind == CU_MEMORYTYPE_HOST);
        REFUSED(cuMemFreeHost(data), CUDA_ERROR_INVALID_VALUE);
        // Kernels that were launched before see the memory still.
        add<<<1, 256, 0, stream>>>(data, kCount, 1);
        DRIVER(cuMemFreeAsync(at, stream));
        REFUSED(cuMemFreeAsync(at, stream), CUDA_ERROR_INVALID_VALUE);
        DRIVER(cuStreamSynchronize(stream));
        TRUE(uses(pool, 0));
    }
    DRIVER(cuMemAllocFromPoolAsync(&at, kBytes, pool, stream));
    DRIVER(cuMemAllocFromPoolAsync(&more, 1, pool, stream));
    uint64_t high = 0;
    DRIVER(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &high));
    TRUE(by_rgpu() ? high == kBytes + 1 : high > kBytes);
    // NVIDIA's driver may count later what was freed without a stream.
    DRIVER(cuMemFree(more));
    DRIVER(cuMemPoolTrimTo(pool, 0));
    if (by_rgpu()) TRUE(uses(pool, kBytes));
    DRIVER(cuMemFree(at));
    if (by_rgpu()) TRUE(uses(pool, 0));
}

static void check_own_pool(CUstream stream)
{
    CUmemoryPool pool, other;
    auto p = properties(CU_MEM_LOCATION_TYPE_HOST, 0);
    p.maxSize = 2 * kBytes;
    DRIVER(cuMemPoolCreate(&pool, &p));
    check_pool(pool, stream);
    CUdeviceptr at, second;
    DRIVER(cuMemAllocFromPoolAsync(&at, kBytes, pool, stream));
    // A driver may round the pool's size up.
    DRIVER_FAILS(
        cuMemAllocFromPoolAsync(&second, by_rgpu() ? kBytes + 1 : size_t{1} << 30, pool, stream),
        CUDA_ERROR_OUT_OF_MEMORY);
    uint64_t threshold = 1 << 20, got = 0;
    DRIVER(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
    DRIVER(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &got));
    TRUE(got == threshold);
    REFUSED(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &threshold),
            CUDA_ERROR_INVALID_VALUE);

    CUmemLocation host{CU_MEM_LOCATION_TYPE_HOST, 0};
    DRIVER(cuMemSetMemPool(&host, CU_MEM_ALLOCATION_TYPE_PINNED, pool));
    DRIVER(cuMemGetMemPool(&other, &host, CU_MEM_ALLOCATION_TYPE_PINNED));
    TRUE(other == pool);
    // A pool's memory outlives it.
    DRIVER(cuMemPoolDestroy(pool));
    if (by_rgpu()) DRIVER_FAILS(cuMemPoolDestroy(pool), CUDA_ERROR_INVALID_HANDLE);
    DRIVER(cuStreamSynchronize(stream));
    *reinterpret_cast<int *>(at) = 41;
    add<<<1, 1, 0, stream>>>(reinterpret_cast<int *>(at), 1, 1);
    DRIVER(cuStreamSynchronize(stream));
    TRUE(*reinterpret_cast<int *>(at) == 42);
    DRIVER(cuMemFreeAsync(at, stream));
    DRIVER(cuMemGetMemPool(&other, &host, CU_MEM_ALLOCATION_TYPE_PINNED));
    TRUE(other != pool);
}

static void check_capture(CUmemoryPool pool, CUstream stream)
{
    CUdeviceptr at, none;
    DRIVER(cuMemAllocFromPoolAsync(&at, kBytes, pool, stream));
    CUgraph graph;
    DRIVER(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    DRIVER_FAILS(cuMemAllocFromPoolAsync(&none, kBytes, pool, stream), CUDA_ERROR_NOT_SUPPORTED);
    DRIVER_FAILS(cuMemFreeAsync(at, stream), CUDA_ERROR_NOT_SUPPORTED);
    DRIVER(cuStreamEndCapture(stream, &graph));
    DRIVER(cuGraphDestroy(graph));
    DRIVER(cuMemFreeAsync(at, stream));
}

int main()
{
    int has = 0;
    CHECK(cudaFree(nullptr));
    DRIVER(cuDeviceGetAttribute(&has, CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED, 0));
    auto p = properties(CU_MEM_LOCATION_TYPE_HOST, 0);
    CUmemoryPool pool;
    if (!has) {
        DRIVER_FAILS(cuMemPoolCreate(&pool, &p), CUDA_ERROR_NOT_SUPPORTED);
        printf("no pools of the host\n");
        return right();
    }
    CUstream stream;
    DRIVER(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    check_refusals();
    check_own_pool(stream);
    CUmemLocation host{CU_MEM_LOCATION_TYPE_HOST, 0}, node{CU_MEM_LOCATION_TYPE_HOST_NUMA, 0};
    DRIVER(cuMemGetDefaultMemPool(&pool, &host, CU_MEM_ALLOCATION_TYPE_PINNED));
    check_pool(pool, stream);
    REFUSED(cuMemPoolDestroy(pool), CUDA_ERROR_INVALID_VALUE);
    if (by_rgpu()) check_capture(pool, stream);
    DRIVER(cuMemGetMemPool(&pool, &node, CU_MEM_ALLOCATION_TYPE_PINNED));
    check_pool(pool, stream);
    return right();
}
