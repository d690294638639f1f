// SPDX-License-Identifier: Apache-2.0
// The driver's opaque handle types, and the numbers that stand for them on the wire.
//
// A client makes a handle's number itself and sends it with the call that creates the object, so
// that creating needs no answer. Numbers of one connection are unique; the server keeps the
// table from number to the driver's own handle.
#pragma once

#include <cstdint>

#include "calls/cuda_api.h"

namespace rgpu::calls {

// X(type, kind, error for a number that is not such a handle)
#define RGPU_HANDLES(X) \
    X(CUcontext, context, CUDA_ERROR_INVALID_CONTEXT) \
    X(CUmodule, module, CUDA_ERROR_INVALID_HANDLE) \
    X(CUfunction, function, CUDA_ERROR_INVALID_HANDLE) \
    X(CUlibrary, library, CUDA_ERROR_INVALID_HANDLE) \
    X(CUkernel, kernel, CUDA_ERROR_INVALID_HANDLE) \
    X(CUstream, stream, CUDA_ERROR_INVALID_HANDLE) \
    X(CUevent, event, CUDA_ERROR_INVALID_HANDLE) \
    X(CUgraph, graph, CUDA_ERROR_INVALID_VALUE) \
    X(CUgraphNode, graph_node, CUDA_ERROR_INVALID_VALUE) \
    X(CUgraphExec, graph_exec, CUDA_ERROR_INVALID_VALUE) \
    X(CUmemoryPool, memory_pool, CUDA_ERROR_INVALID_HANDLE) \
    X(CUarray, array, CUDA_ERROR_INVALID_HANDLE) \
    X(CUmipmappedArray, mipmapped_array, CUDA_ERROR_INVALID_HANDLE) \
    X(CUlinkState, link_state, CUDA_ERROR_INVALID_HANDLE)

enum class HandleKind : uint8_t {
    none,
#define X(type, kind, error) kind,
    RGPU_HANDLES(X)
#undef X
};

template <class T> inline constexpr HandleKind kHandleKind = HandleKind::none;
#define X(type, kind, error) \
    template <> inline constexpr HandleKind kHandleKind<type> = HandleKind::kind;
RGPU_HANDLES(X)
#undef X

template <class T> inline constexpr bool kIsHandle = kHandleKind<T> != HandleKind::none;

constexpr CUresult invalid_handle(HandleKind k)
{
    switch (k) {
#define X(type, kind, error) \
    case HandleKind::kind: return error;
        RGPU_HANDLES(X)
#undef X
    case HandleKind::none: break;
    }
    return CUDA_ERROR_INVALID_HANDLE;
}

using HandleId = uint32_t;
inline constexpr HandleId kNoHandle = 0;
// Numbers below this one are not objects: null, and the driver's special streams
// (CU_STREAM_LEGACY = 1, CU_STREAM_PER_THREAD = 2) under their own values.
inline constexpr HandleId kFirstHandle = 16;
inline constexpr HandleId kMaxHandles = 1u << 22;
// From here on the server gives the numbers, to objects that the driver made unasked (the nodes of
// a captured graph).
inline constexpr HandleId kFirstServerHandle = kMaxHandles / 2;

}  // namespace rgpu::calls
