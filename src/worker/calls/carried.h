// SPDX-License-Identifier: Apache-2.0
// Structs that cannot cross the wire as they are, because they hold handles or pointers: the
// server's half of interpose/stub/carried.h, where their layouts are described.
#pragma once

#include <memory>
#include <type_traits>
#include <vector>

#include "calls/cuda_api.h"
#include "wire/codec.h"

namespace rgpu::worker {

class Session;

// What a decoded struct points to, for as long as its call is served.
struct CarriedMemory {
    std::vector<std::unique_ptr<uint8_t[]>> blocks;

    uint8_t *take(size_t bytes)
    {
        return blocks.emplace_back(std::make_unique<uint8_t[]>(bytes ? bytes : 1)).get();
    }
};

template <class T> struct Carried : std::false_type {
    static constexpr bool on_failure = false;
};

#define RGPU_CARRIED(T, on_failure_) \
    template <> struct Carried<T> : std::true_type { \
        static constexpr bool on_failure = on_failure_; \
        static CUresult decode(wire::Reader &, Session &, T &, CarriedMemory &); \
        static void encode(wire::Writer &, Session &, const T &); \
    };

// carried_kernel.cc
RGPU_CARRIED(CUDA_KERNEL_NODE_PARAMS_v1, false)
RGPU_CARRIED(CUDA_KERNEL_NODE_PARAMS_v2, false)
RGPU_CARRIED(CUDA_KERNEL_NODE_PARAMS_v3, false)
// carried_graph.cc
RGPU_CARRIED(CUDA_MEMCPY3D, false)
RGPU_CARRIED(CUDA_HOST_NODE_PARAMS, false)
RGPU_CARRIED(CUDA_MEM_ALLOC_NODE_PARAMS, false)
RGPU_CARRIED(CUDA_BATCH_MEM_OP_NODE_PARAMS, false)
RGPU_CARRIED(CUgraphNodeParams, false)
RGPU_CARRIED(CUgraphExecUpdateResultInfo, true)
RGPU_CARRIED(CUDA_GRAPH_INSTANTIATE_PARAMS, true)

// carried_texture.cc
RGPU_CARRIED(CUDA_RESOURCE_DESC, false)
RGPU_CARRIED(CUlaunchConfig, false)

#undef RGPU_CARRIED

}  // namespace rgpu::worker
