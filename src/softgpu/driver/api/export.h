// SPDX-License-Identifier: Apache-2.0
// How a driver call is exported: RGPU_EXPORT(cuMemAlloc_v2, mem_alloc) makes the C symbol
// cuMemAlloc_v2 from the function mem_alloc, which has the prototype that cuda.h gives to
// cuMemAlloc_v2.
//
// The symbol is an ifunc whose resolver names an instance of Exported: so the prototype is written
// once. Every call passes through it: not before cuInit (nor in a forked child), no exception gets
// out.
#pragma once

#include <new>

#include "calls/cuda_api.h"
#include "softgpu/driver/state/current.h"
#include "softgpu/driver/state/initialise.h"

namespace rgpu::softgpu::driver {

enum ExportFlags {
    kOrdinary = 0,
    kBeforeInit = 1,  // may be called before cuInit
    kPerThread = 2,   // a null stream is the calling thread's default stream
};

template <class Function, auto implementation, int flags> struct Exported;
template <class... A, auto implementation, int flags>
struct Exported<CUresult(A...), implementation, flags> {
    static CUresult call(A... a) noexcept
    {
        if constexpr (!(flags & kBeforeInit))
            if (!is_initialised()) return CUDA_ERROR_NOT_INITIALIZED;
        const bool before = t_null_stream_is_per_thread;
        t_null_stream_is_per_thread = flags & kPerThread;
        CUresult rc;
        try {
            rc = implementation(a...);
        } catch (const std::bad_alloc &) {
            rc = CUDA_ERROR_OUT_OF_MEMORY;
        } catch (...) {
            rc = CUDA_ERROR_UNKNOWN;
        }
        t_null_stream_is_per_thread = before;
        return rc;
    }
};

}  // namespace rgpu::softgpu::driver

#define RGPU_EXPORT_AS(symbol, implementation, flags) \
    extern "C" { \
    [[gnu::used]] static auto *resolve_##symbol(void) \
    { \
        return &rgpu::softgpu::driver::Exported<decltype(symbol), implementation, flags>::call; \
    } \
    [[gnu::ifunc("resolve_" #symbol), gnu::visibility("default")]] decltype(symbol) symbol; \
    }

#define RGPU_EXPORT(symbol, implementation) RGPU_EXPORT_AS(symbol, implementation, kOrdinary)
// A call with a stream: the plain symbol and the one of per-thread default streams.
#define RGPU_EXPORT_PTSZ(symbol, implementation) \
    RGPU_EXPORT_AS(symbol, implementation, kOrdinary) \
    RGPU_EXPORT_AS(symbol##_ptsz, implementation, kPerThread)
#define RGPU_EXPORT_PTDS(symbol, implementation) \
    RGPU_EXPORT_AS(symbol, implementation, kOrdinary) \
    RGPU_EXPORT_AS(symbol##_ptds, implementation, kPerThread)
