// SPDX-License-Identifier: Apache-2.0
// Clusters of one block run; larger ones run or are refused, as the device says, whether the kernel
// or the launch asks for them.
#include "check.h"

#include <cooperative_groups.h>

namespace cg = cooperative_groups;

__global__ void __cluster_dims__(1, 1, 1) alone(unsigned *p)
{
    cg::cluster_group c = cg::this_cluster();
    c.sync();
    p[blockIdx.x] = c.num_blocks() * 100 + c.block_rank();
}
__global__ void __cluster_dims__(2, 1, 1) pairs(unsigned *p) { p[blockIdx.x] = 7; }
__global__ void freely(unsigned *p) { p[blockIdx.x] = 8; }

int main()
{
    unsigned *p;
    CHECK(cudaMallocManaged(&p, 64));
    alone<<<4, 32>>>(p);
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < 4; i++) TRUE(p[i] == 100);
    int launches = 0;
    CHECK(cudaDeviceGetAttribute(&launches, cudaDevAttrClusterLaunch, 0));
    const cudaError_t larger = launches ? cudaSuccess : cudaErrorNotSupported;
    pairs<<<4, 32>>>(p);
    TRUE(cudaGetLastError() == larger);

    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {2, 1, 1};
    cudaLaunchConfig_t c = {};
    c.gridDim = 4, c.blockDim = 32, c.attrs = &cluster, c.numAttrs = 1;
    TRUE(cudaLaunchKernelEx(&c, freely, p) == larger);
    cudaGetLastError();
    CHECK(cudaDeviceSynchronize());
    cluster.val.clusterDim = {1, 1, 1};
    CHECK(cudaLaunchKernelEx(&c, freely, p));
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < 4; i++) TRUE(p[i] == 8);

    cudaFuncAttributes a;
    CHECK(cudaFuncGetAttributes(&a, pairs));
    TRUE(a.requiredClusterWidth == 2 && a.requiredClusterHeight == 1 &&
         a.requiredClusterDepth == 1);
    CHECK(cudaFuncGetAttributes(&a, freely));
    TRUE(a.requiredClusterWidth == 0);
    return right();
}
