// SPDX-License-Identifier: Apache-2.0
// New parameters of kernels in executable graphs (CUDA Driver API, Graph Management,
// cuGraphExecKernelNodeSetParams): which of them the driver is known to take, so that nobody has to
// wait for its word. JAX gives each kernel of a graph new arguments before each launch.
//
// A node that has taken a function once takes it again, in blocks of the same shape, with other
// arguments and another grid. All functions: any thread.
#pragma once

#include "calls/calls.h"
#include "calls/handles.h"

namespace rgpu::interpose {

// What the driver looks at.
struct KernelUpdate {
    CUfunction function = nullptr;
    CUkernel kernel = nullptr;
    CUcontext context = nullptr;
    unsigned grid[3] = {}, block[3] = {}, shared_bytes = 0;

    explicit KernelUpdate(const CUDA_KERNEL_NODE_PARAMS_v1 &p) : KernelUpdate(p, p.func) {}
    explicit KernelUpdate(const CUDA_KERNEL_NODE_PARAMS_v2 &p) : KernelUpdate(p, p.func)
    {
        kernel = p.kern, context = p.ctx;
    }

private:
    template <class P> KernelUpdate(const P &p, CUfunction f)
        : function(f), grid{p.gridDimX, p.gridDimY, p.gridDimZ}, block{p.blockDimX, p.blockDimY,
                                                                       p.blockDimZ},
          shared_bytes(p.sharedMemBytes)
    {}
};

bool will_take(calls::HandleId exec, calls::HandleId node, const KernelUpdate &update);
// The driver has taken it.
void note_taken(calls::HandleId exec, calls::HandleId node, const KernelUpdate &update);
// The executable graph has ended, or was changed as a whole.
void forget_updates(calls::HandleId exec);
// A node, a graph or a function has ended, whose number may come again.
void forget_all_updates();

}  // namespace rgpu::interpose
