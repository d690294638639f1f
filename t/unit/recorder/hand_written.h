// SPDX-License-Identifier: Apache-2.0
// The calls whose code is written by hand on either side, each made once.
#pragma once

#include "interpose/state/ranges.h"
#include "interpose/stub/by_hand.h"
#include "t/unit/recorder/random_calls.h"

namespace rgpu::test {

// Graphs: structs that hold handles and pointers.
inline void graph_calls(Wire &wire, CUfunction function, CUstream stream, void **params)
{
    using interpose::remote;
    CUgraph graph{};
    CUgraphNode first{}, second{}, host{};
    CUgraphExec exec{};
    must(remote<CallId::cuGraphCreate>(&graph, 0u) == CUDA_SUCCESS);
    CUDA_KERNEL_NODE_PARAMS_v2 kernel{};
    kernel.func = function;
    kernel.gridDimX = kernel.gridDimY = kernel.gridDimZ = kernel.blockDimX = kernel.blockDimY =
        kernel.blockDimZ = 1;
    kernel.kernelParams = params;
    must(remote<CallId::cuGraphAddKernelNode_v2>(&first, graph, nullptr, size_t{0}, &kernel) ==
         CUDA_SUCCESS);
    must(remote<CallId::cuGraphAddKernelNode_v2>(&second, graph, &first, size_t{1}, &kernel) ==
         CUDA_SUCCESS);
    must(remote<CallId::cuGraphKernelNodeSetParams_v2>(second, &kernel) == CUDA_SUCCESS);
    CUDA_MEMSET_NODE_PARAMS set{};
    set.dst = recorder::kMemory, set.elementSize = 1, set.width = 10, set.height = 1;
    must(remote<CallId::cuGraphAddMemsetNode>(&second, graph, &first, size_t{1}, &set,
                                              CUcontext{}) == CUDA_SUCCESS);
    CUDA_HOST_NODE_PARAMS function_of_ours{[](void *) {}, nullptr};
    remote<CallId::cuGraphAddHostNode>(&host, graph, &first, size_t{1}, &function_of_ours);
    CUgraphNode nodes[4]{};
    size_t count = 4;
    remote<CallId::cuGraphGetNodes>(graph, nodes, &count);
    remote<CallId::cuGraphAddDependencies_v2>(graph, &first, &second, nullptr, size_t{1});
    remote<CallId::cuGraphInstantiateWithFlags>(&exec, graph, cuuint64_t{0});
    remote<CallId::cuGraphLaunch>(exec, stream);
    CUgraphExecUpdateResultInfo updated{};
    remote<CallId::cuGraphExecUpdate_v2>(exec, graph, &updated);
    CUgraphNodeParams any{};
    any.type = CU_GRAPH_NODE_TYPE_EMPTY;
    remote<CallId::cuGraphAddNode_v2>(&host, graph, &first, nullptr, size_t{1}, &any);
    must(wire.barrier() == CUDA_SUCCESS);
}

// The calls whose code is written by hand, by their own functions in the client; their frames stay
// in `wire`.
inline void hand_written_calls(Wire &wire)
{
    namespace own = interpose::own;
    const CUstream stream = wire.handle(reinterpret_cast<CUstream>(0x57ea0));
    const CUdeviceptr memory = recorder::kMemory;
    interpose::note_allocation(memory, 1 << 20);
    CUmodule module{};
    CUlibrary library{};
    CUfunction function{};
    CUkernel kernel{};
    CUfunction of_kernel{};
    must(own::cuModuleLoadDataEx(&module, kImage, 0, nullptr, nullptr) == CUDA_SUCCESS);
    must(own::cuLibraryLoadData(&library, kImage, nullptr, nullptr, 0, nullptr, nullptr, 0) ==
         CUDA_SUCCESS);
    must(own::cuModuleGetFunction(&function, module, "recorded") == CUDA_SUCCESS);
    must(own::cuLibraryGetKernel(&kernel, library, "recorded") == CUDA_SUCCESS);
    must(own::cuKernelGetFunction(&of_kernel, kernel) == CUDA_SUCCESS);

    uint64_t a = dice(), b = dice(), c = dice();
    void *params[] = {&a, &b, &c};
    must(own::cuLaunchKernel(function, 1, 2, 3, 4, 5, 6, 7, stream, params, nullptr) ==
         CUDA_SUCCESS);
    must(wire.barrier() == CUDA_SUCCESS);
    const Bytes launch = note_of(CallId::cuLaunchKernel).in;
    Bytes block;
    recorder::add(block, a), recorder::add(block, b), recorder::add(block, c);
    must(launch.size() > block.size() &&
             std::equal(block.begin(), block.end(),
                        launch.end() - static_cast<ptrdiff_t>(block.size())),
         "the kernel's parameters arrive");

    Bytes up(3000), down(3000);
    for (uint8_t &x : up) x = static_cast<uint8_t>(dice());
    must(own::cuMemcpyHtoDAsync_v2(memory, up.data(), up.size(), stream) == CUDA_SUCCESS);
    must(wire.barrier() == CUDA_SUCCESS);
    const Bytes copied = note_of(CallId::cuMemcpyHtoDAsync_v2).in;
    must(copied.size() > up.size() &&
             std::equal(up.begin(), up.end(), copied.end() - static_cast<ptrdiff_t>(up.size())),
         "a copy's bytes arrive");
    must(own::cuMemcpyDtoHAsync_v2(down.data(), memory, down.size(), stream) == CUDA_SUCCESS);
    must(note_of(CallId::cuMemcpyDtoHAsync_v2).out == down,
         "a copy to the host brings the driver's bytes");

    graph_calls(wire, function, stream, params);

    CUlinkState link{};
    must(own::cuLinkCreate_v2(0, nullptr, nullptr, &link) == CUDA_SUCCESS);
    must(own::cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, const_cast<char *>(kImage), sizeof kImage,
                               "one", 0, nullptr, nullptr) == CUDA_SUCCESS);
    void *cubin{};
    size_t cubin_bytes{};
    must(own::cuLinkComplete(link, &cubin, &cubin_bytes) == CUDA_SUCCESS);
    must(cubin_bytes == sizeof "a linked image" && !memcmp(cubin, "a linked image", cubin_bytes),
         "a linked image comes back");

    const auto pool = wire.handle(reinterpret_cast<CUmemoryPool>(0x9001));
    uint64_t value = dice();
    own::cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value);
    own::cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value);
    own::cuLaunchHostFunc(
        stream, [](void *) {}, nullptr);
    interpose::remote<CallId::cuStreamSynchronize>(stream);
    interpose::remote<CallId::cuCtxSynchronize>();
    interpose::remote<CallId::cuEventSynchronize>(wire.handle(reinterpret_cast<CUevent>(0xe7e47)));
    must(wire.barrier() == CUDA_SUCCESS);
}

}  // namespace rgpu::test
