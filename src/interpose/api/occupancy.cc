// SPDX-License-Identifier: Apache-2.0
// cuOccupancyMaxPotentialBlockSize calls the program back for each block size, so it is computed
// here from the occupancy that the server tells (CUDA Driver API, "Occupancy").
#include "interpose/stub/by_hand.h"
#include "interpose/stub/stub.h"

namespace rgpu::interpose::own {

CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, CUfunction f,
                                                   CUoccupancyB2DSize shared_for, size_t shared,
                                                   int limit, unsigned int flags)
{
    if (!session()) return not_ready();
    if (!grid || !block) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult r = context_state()) return r;
    const wire::DeviceSnapshot *d = device(Handles::get().at(current_context())->device);
    int most = 0;
    CUresult r = own::cuFuncGetAttribute(&most, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, f);
    if (r) return r;
    const int warp = d->attributes[CU_DEVICE_ATTRIBUTE_WARP_SIZE];
    if (limit > 0) most = std::min(most, limit);
    int best_threads = 0;
    // The largest block among those with the most threads resident on a multiprocessor.
    for (int size = (most + warp - 1) / warp * warp; size > 0; size -= warp) {
        const int threads = std::min(size, most);
        int blocks = 0;
        r = own::cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
            &blocks, f, threads, shared_for ? shared_for(threads) : shared, flags);
        if (r) return r;
        if (blocks * threads > best_threads) {
            best_threads = blocks * threads;
            *block = threads;
            *grid = blocks * d->attributes[CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT];
        }
        if (best_threads >= d->attributes[CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR])
            break;
    }
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialBlockSize(int *grid, int *block, CUfunction f,
                                          CUoccupancyB2DSize shared_for, size_t shared, int limit)
{
    return own::cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, f, shared_for, shared, limit,
                                                          0);
}

}  // namespace rgpu::interpose::own
