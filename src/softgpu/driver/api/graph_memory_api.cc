// SPDX-License-Identifier: Apache-2.0
// Memory nodes of graphs: CUDA Driver API, "Graph Management", cuGraphAddMemAllocNode and the like.
#include <algorithm>

#include "softgpu/driver/api/export.h"
#include "softgpu/driver/graph/graph.h"
#include "softgpu/driver/graph/graph_exec.h"
#include "softgpu/driver/graph/graph_memory.h"
#include "softgpu/driver/graph/node_work.h"
#include "softgpu/driver/state/context.h"
#include "softgpu/driver/state/driver.h"

namespace rgpu::softgpu::driver {

namespace {

CUresult add_alloc(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                   CUDA_MEM_ALLOC_NODE_PARAMS *p)
{
    std::lock_guard lock(graph_lock());
    WorkRef work;
    if (CUresult rc = make_alloc(p, work)) return rc;
    if (CUresult rc = add_graph_node(node, graph, after, count, work)) return rc;
    p->dptr = std::get<AllocWork>(*work).parameters.dptr;
    return CUDA_SUCCESS;
}

CUresult add_free(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                  CUdeviceptr address)
{
    std::lock_guard lock(graph_lock());
    WorkRef work;
    if (CUresult rc = make_free(address, work)) return rc;
    return add_graph_node(node, graph, after, count, std::move(work));
}

CUresult get_alloc(CUgraphNode handle, CUDA_MEM_ALLOC_NODE_PARAMS *p)
{
    std::lock_guard lock(graph_lock());
    auto node = driver().graph_nodes.find(handle);
    const auto *work = node ? std::get_if<AllocWork>(node->work.get()) : nullptr;
    if (!work || !p) return CUDA_ERROR_INVALID_VALUE;
    *p = work->parameters;
    return CUDA_SUCCESS;
}

CUresult get_free(CUgraphNode handle, CUdeviceptr *address)
{
    std::lock_guard lock(graph_lock());
    auto node = driver().graph_nodes.find(handle);
    const auto *work = node ? std::get_if<FreeWork>(node->work.get()) : nullptr;
    if (!work || !address) return CUDA_ERROR_INVALID_VALUE;
    *address = work->memory->address;
    return CUDA_SUCCESS;
}

// Graphs keep nothing in reserve.
CUresult trim(CUdevice d) { return find_device(d) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE; }

CUresult get_attribute(CUdevice d, CUgraphMem_attribute which, void *value)
{
    Device *device = find_device(d);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    if (!value) return CUDA_ERROR_INVALID_VALUE;
    switch (which) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
        *static_cast<cuuint64_t *>(value) = device->graph_memory.now;
        return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
        *static_cast<cuuint64_t *>(value) = device->graph_memory.high;
        return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult set_attribute(CUdevice d, CUgraphMem_attribute which, void *value)
{
    Device *device = find_device(d);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    const bool high = which == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH ||
                      which == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH;
    // CUDA: only zero, which starts counting anew.
    if (!value || !high || *static_cast<cuuint64_t *>(value)) return CUDA_ERROR_INVALID_VALUE;
    device->graph_memory.high = device->graph_memory.now.load();
    return CUDA_SUCCESS;
}

RGPU_EXPORT(cuGraphAddMemAllocNode, add_alloc)
RGPU_EXPORT(cuGraphAddMemFreeNode, add_free)
RGPU_EXPORT(cuGraphMemAllocNodeGetParams, get_alloc)
RGPU_EXPORT(cuGraphMemFreeNodeGetParams, get_free)
RGPU_EXPORT(cuDeviceGraphMemTrim, trim)
RGPU_EXPORT(cuDeviceGetGraphMemAttribute, get_attribute)
RGPU_EXPORT(cuDeviceSetGraphMemAttribute, set_attribute)

}  // namespace

}  // namespace rgpu::softgpu::driver
