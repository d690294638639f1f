// SPDX-License-Identifier: Apache-2.0
// cuMemAddressReserve gives the addresses that a program asks for, where they are free, and others
// where they are not. To a driver a hint is a hint: NVIDIA's gives others at times, the software
// GPU does not.
#include "check.h"

constexpr size_t kPage = size_t{2} << 20;

__global__ void store(int *p, int v) { *p = v; }

static CUdeviceptr reserved(size_t bytes, CUdeviceptr hint, size_t alignment = 0)
{
    CUdeviceptr at = 0;
    DRIVER(cuMemAddressReserve(&at, bytes, alignment, hint, 0));
    TRUE(at && at % kPage == 0);
    return at;
}

static void is_memory(CUdeviceptr at)
{
    CUmemAllocationProp p{};
    p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CUmemAccessDesc access{p.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle memory = 0;
    int got = 0;
    DRIVER(cuMemCreate(&memory, kPage, &p, 0));
    DRIVER(cuMemMap(at, kPage, 0, memory, 0));
    DRIVER(cuMemSetAccess(at, kPage, &access, 1));
    store<<<1, 1>>>(reinterpret_cast<int *>(at), 42);
    CHECK(cudaMemcpy(&got, reinterpret_cast<void *>(at), sizeof got, cudaMemcpyDefault));
    EXPECT(got == 42, "%d", got);
    DRIVER(cuMemUnmap(at, kPage));
    DRIVER(cuMemRelease(memory));
}

int main()
{
    CHECK(cudaFree(nullptr));
    const bool exact = on_softgpu();
    // A stretch that is free: nothing lies there on Linux.
    const CUdeviceptr all = reserved(64 * kPage, CUdeviceptr{0x600000000000});
    TRUE(all == CUdeviceptr{0x600000000000} || !exact);
    DRIVER(cuMemAddressFree(all, 64 * kPage));
    const CUdeviceptr middle = reserved(4 * kPage, all + 16 * kPage);
    EXPECT(middle == all + 16 * kPage || !exact, "%llx is not %llx", middle, all + 16 * kPage);
    is_memory(middle);
    // What meets it is somewhere else: before, behind, within.
    for (const CUdeviceptr hint : {middle - kPage, middle, middle + 3 * kPage}) {
        const CUdeviceptr other = reserved(2 * kPage, hint);
        TRUE(other + 2 * kPage <= middle || other >= middle + 4 * kPage);
        is_memory(other);
        DRIVER(cuMemAddressFree(other, 2 * kPage));
    }
    // Both neighbours are there, and the same again.
    const CUdeviceptr before = reserved(kPage, middle - kPage);
    const CUdeviceptr behind = reserved(kPage, middle + 4 * kPage);
    TRUE((before == middle - kPage && behind == middle + 4 * kPage) || !exact);
    DRIVER(cuMemAddressFree(middle, 4 * kPage));
    const CUdeviceptr again = reserved(4 * kPage, middle);
    TRUE(again == middle || !exact);
    is_memory(again + 3 * kPage);
    DRIVER(cuMemAddressFree(before, kPage));
    DRIVER(cuMemAddressFree(again, 4 * kPage));
    DRIVER(cuMemAddressFree(behind, kPage));
    // Hints that cannot be: not aligned, and round the end.
    const CUdeviceptr large = reserved(kPage, all + kPage, 64 * kPage);
    TRUE(large % (64 * kPage) == 0);
    DRIVER(cuMemAddressFree(large, kPage));
    for (const CUdeviceptr hint : {all + 4096, ~CUdeviceptr{0}, CUdeviceptr{0} - kPage}) {
        CUdeviceptr at = 0;
        const CUresult r = cuMemAddressReserve(&at, 2 * kPage, 0, hint, 0);
        if (r == CUDA_ERROR_INVALID_VALUE) continue;  // NVIDIA's driver refuses them
        DRIVER(r);
        is_memory(at);
        DRIVER(cuMemAddressFree(at, 2 * kPage));
    }
    return right();
}
