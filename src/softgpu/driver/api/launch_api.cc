// SPDX-License-Identifier: Apache-2.0
// Launching: CUDA Driver API, "Execution Control" and "Occupancy".
#include <algorithm>
#include <climits>

#include "softgpu/driver/api/export.h"
#include "softgpu/driver/graph/capture.h"
#include "softgpu/driver/graph/graph_work.h"
#include "softgpu/driver/graph/submit.h"
#include "softgpu/driver/state/attributes.h"
#include "softgpu/driver/state/current.h"
#include "softgpu/driver/state/driver.h"
#include "softgpu/driver/state/launch.h"
#include "softgpu/driver/state/library.h"
#include "softgpu/driver/state/module.h"
#include "softgpu/driver/state/stream.h"

namespace rgpu::softgpu::driver {

namespace {

struct Shape {
    Dim3 grid, block;
    unsigned shared;
    bool cooperative = false;
};

CUresult launch_it(CUfunction handle, const Shape &shape, CUstream stream, void **arguments,
                   void **extra)
{
    std::shared_ptr<Stream> s;
    if (CUresult rc = find_stream(stream, s)) return rc;
    KernelLaunch l;
    if (CUresult rc = find_function(handle, l.function)) return rc;
    if (driver().settings.loading_waits && !s->capturing)
        if (CUresult rc = load_waiting(*l.function)) return rc;
    l.grid = shape.grid;
    l.block = shape.block;
    l.dynamic_shared = shape.shared;
    l.cooperative = shape.cooperative;
    if (CUresult rc = read_arguments(l.function->kernel, arguments, extra, l.parameters)) return rc;
    return launch(*s, std::move(l), handle);
}

CUresult launch_kernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                       unsigned by, unsigned bz, unsigned shared, CUstream stream, void **arguments,
                       void **extra)
{
    return launch_it(f, {{gx, gy, gz}, {bx, by, bz}, shared}, stream, arguments, extra);
}

CUresult launch_cooperative(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                            unsigned by, unsigned bz, unsigned shared, CUstream stream,
                            void **arguments)
{
    return launch_it(f, {{gx, gy, gz}, {bx, by, bz}, shared, true}, stream, arguments, nullptr);
}

CUresult launch_ex(const CUlaunchConfig *c, CUfunction f, void **arguments, void **extra)
{
    if (!c || (c->numAttrs && !c->attrs)) return CUDA_ERROR_INVALID_VALUE;
    Shape shape{{c->gridDimX, c->gridDimY, c->gridDimZ},
                {c->blockDimX, c->blockDimY, c->blockDimZ},
                c->sharedMemBytes};
    for (unsigned i = 0; i < c->numAttrs; i++) {
        const CUlaunchAttribute &a = c->attrs[i];
        if (a.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) shape.cooperative = a.value.cooperative;
        // Clusters need distributed shared memory; a cluster of one block does not. What remains
        // are hints.
        if (a.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION &&
            (a.value.clusterDim.x > 1 || a.value.clusterDim.y > 1 || a.value.clusterDim.z > 1))
            return CUDA_ERROR_NOT_SUPPORTED;
    }
    return launch_it(f, shape, c->hStream, arguments, extra);
}

CUresult launch_host(CUstream stream, CUhostFn function, void *data)
{
    std::shared_ptr<Stream> s;
    if (CUresult rc = find_stream(stream, s)) return rc;
    if (!function) return CUDA_ERROR_INVALID_VALUE;
    if (s->capturing)
        return capture_work(*s, std::make_shared<const Work>(HostWork{{function, data}}));
    if (CUresult rc = may_work(*s)) return rc;
    s->enqueue([function, data] { function(data); });
    return CUDA_SUCCESS;
}

// --- occupancy

CUresult max_blocks_with_flags(int *blocks, CUfunction handle, int threads, size_t shared, unsigned)
{
    std::shared_ptr<Function> f;
    if (CUresult rc = find_function(handle, f)) return rc;
    if (!blocks || threads <= 0) return CUDA_ERROR_INVALID_VALUE;
    *blocks = resident_blocks(*f, threads, shared);
    return CUDA_SUCCESS;
}

CUresult max_blocks(int *blocks, CUfunction f, int threads, size_t shared)
{
    return max_blocks_with_flags(blocks, f, threads, shared, 0);
}

CUresult best_shape_with_flags(int *grid, int *block, CUfunction handle,
                               CUoccupancyB2DSize shared_of, size_t shared, int limit, unsigned)
{
    std::shared_ptr<Function> f;
    if (CUresult rc = find_function(handle, f)) return rc;
    if (!grid || !block) return CUDA_ERROR_INVALID_VALUE;
    int most = 0;
    f->attribute(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, most);
    if (limit > 0) most = std::min(most, limit);
    // The block size with which most threads are resident; the larger of two equal ones.
    unsigned best_threads = 0;
    *grid = *block = 0;
    for (int threads = (most + kWarp - 1) / kWarp * kWarp; threads > 0; threads -= kWarp) {
        const int size = std::min(threads, most);
        const unsigned blocks = resident_blocks(*f, size, shared_of ? shared_of(size) : shared);
        if (blocks * size <= best_threads) continue;
        best_threads = blocks * size;
        *block = size;
        *grid = blocks * cores();
    }
    return CUDA_SUCCESS;
}

CUresult best_shape(int *grid, int *block, CUfunction f, CUoccupancyB2DSize shared_of,
                    size_t shared, int limit)
{
    return best_shape_with_flags(grid, block, f, shared_of, shared, limit, 0);
}

CUresult available_shared(size_t *bytes, CUfunction handle, int blocks, int threads)
{
    std::shared_ptr<Function> f;
    if (CUresult rc = find_function(handle, f)) return rc;
    if (!bytes || blocks <= 0 || threads <= 0) return CUDA_ERROR_INVALID_VALUE;
    if (static_cast<unsigned>(blocks) > resident_blocks(*f, threads, 0))
        return CUDA_ERROR_INVALID_VALUE;
    const size_t each = multiprocessor().shared / blocks,
                 taken = f->kernel.static_shared + kReservedShared;
    *bytes = each > taken ? std::min<size_t>(each - taken, f->dynamic_shared_limit()) : 0;
    return CUDA_SUCCESS;
}

RGPU_EXPORT_PTSZ(cuLaunchKernel, launch_kernel)
RGPU_EXPORT_PTSZ(cuLaunchKernelEx, launch_ex)
RGPU_EXPORT_PTSZ(cuLaunchCooperativeKernel, launch_cooperative)
RGPU_EXPORT_PTSZ(cuLaunchHostFunc, launch_host)
RGPU_EXPORT(cuOccupancyMaxActiveBlocksPerMultiprocessor, max_blocks)
RGPU_EXPORT(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, max_blocks_with_flags)
RGPU_EXPORT(cuOccupancyMaxPotentialBlockSize, best_shape)
RGPU_EXPORT(cuOccupancyMaxPotentialBlockSizeWithFlags, best_shape_with_flags)
RGPU_EXPORT(cuOccupancyAvailableDynamicSMemPerBlock, available_shared)

}  // namespace

}  // namespace rgpu::softgpu::driver
