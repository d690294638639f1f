// SPDX-License-Identifier: Apache-2.0
// Makes the work of graph nodes: from CUDA's structures that describe a node, and from what a call
// gives to a stream that is being captured. Says what work is in CUDA's structures again.
//
// What makes graphs inside nodes is called under graph_lock(); the rest may be called by any
// thread.
#pragma once

#include "calls/cuda_api.h"
#include "softgpu/driver/graph/graph_work.h"

namespace rgpu::softgpu::driver {

// Each checks as the call would that does the same in a stream.
CUresult make_work(const CUDA_KERNEL_NODE_PARAMS_v1 *, WorkRef &);
CUresult make_work(const CUDA_KERNEL_NODE_PARAMS_v2 *, WorkRef &);
CUresult make_work(const CUDA_MEMCPY3D *, CUcontext, WorkRef &);
CUresult make_work(const CUDA_MEMSET_NODE_PARAMS *, CUcontext, WorkRef &);
CUresult make_work(const CUDA_HOST_NODE_PARAMS *, WorkRef &);
CUresult make_wait(CUevent, WorkRef &);
CUresult make_record(CUevent, WorkRef &);
CUresult make_alloc(const CUDA_MEM_ALLOC_NODE_PARAMS *, WorkRef &);
CUresult make_free(CUdeviceptr, WorkRef &);
CUresult make_work(const CUDA_CONDITIONAL_NODE_PARAMS *, WorkRef &);
CUresult make_work(const CUDA_BATCH_MEM_OP_NODE_PARAMS *, WorkRef &);
// Of any type that a CUgraphNodeParams can describe; NOT_SUPPORTED for the others.
CUresult make_work(const CUgraphNodeParams *, WorkRef &);
// For what was found in a stream that is being captured.
WorkRef kernel_work(KernelLaunch, CUfunction as_named);
WorkRef copy_work(Context &, const Copy &);
WorkRef fill_work(Context &, const Fill &);
WorkRef memory_op_work(Context &, std::vector<CUstreamBatchMemOpParams>);

// The same work with other kernel attributes.
CUresult set_attribute(const KernelWork &, CUlaunchAttributeID, const CUlaunchAttributeValue &,
                       WorkRef &);
CUresult get_attribute(const KernelWork &, CUlaunchAttributeID, CUlaunchAttributeValue &);

void describe(const KernelWork &, CUDA_KERNEL_NODE_PARAMS_v1 &);
void describe(const KernelWork &, CUDA_KERNEL_NODE_PARAMS_v2 &);
void describe(const MemoryOpWork &, CUDA_BATCH_MEM_OP_NODE_PARAMS &);

}  // namespace rgpu::softgpu::driver
