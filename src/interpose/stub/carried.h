// SPDX-License-Identifier: Apache-2.0
// Structs that cannot cross the wire as they are, because they hold handles or pointers: how each
// is written and read. A call whose parameter has such a type needs nothing but its line in the
// table. The server's half, with the same layouts, is worker/calls/carried.h.
#pragma once

#include <type_traits>
#include <vector>

#include "interpose/state/handles.h"
#include "wire/codec.h"

namespace rgpu::interpose {

// encode() appends the struct's form on the wire, or says what is wrong with it. decode() fills in
// what the server answered; `self` is the object that was asked (a graph node keeps the memory that
// the struct then points to). With on_failure it is answered by calls that fail, too.
template <class T> struct Carried : std::false_type {
    static constexpr bool on_failure = false;
};

#define RGPU_CARRIED(T, on_failure_) \
    template <> struct Carried<T> : std::true_type { \
        static constexpr bool on_failure = on_failure_; \
        static CUresult encode(const T &, std::vector<uint8_t> &); \
        static void decode(wire::Reader &, T &, HandleId self); \
    };

// carried_kernel.cc
RGPU_CARRIED(CUDA_KERNEL_NODE_PARAMS_v1, false)
RGPU_CARRIED(CUDA_KERNEL_NODE_PARAMS_v2, false)
RGPU_CARRIED(CUDA_KERNEL_NODE_PARAMS_v3, false)
// carried_copy.cc
RGPU_CARRIED(CUDA_MEMCPY3D, false)
// carried_graph.cc
RGPU_CARRIED(CUDA_HOST_NODE_PARAMS, false)
RGPU_CARRIED(CUDA_MEM_ALLOC_NODE_PARAMS, false)
RGPU_CARRIED(CUDA_BATCH_MEM_OP_NODE_PARAMS, false)
RGPU_CARRIED(CUgraphNodeParams, false)
RGPU_CARRIED(CUgraphExecUpdateResultInfo, true)
RGPU_CARRIED(CUDA_GRAPH_INSTANTIATE_PARAMS, true)

// carried_texture.cc
RGPU_CARRIED(CUDA_RESOURCE_DESC, false)
// launch.cc
RGPU_CARRIED(CUlaunchConfig, false)

#undef RGPU_CARRIED

}  // namespace rgpu::interpose
