// SPDX-License-Identifier: Apache-2.0
// cuda.h with every ABI symbol declared (cuMemAlloc and cuMemAlloc_v2, cuLaunchKernel_ptsz, ...),
// none hidden behind a macro, and those that cuda.h lacks. Include this instead of cuda.h
// everywhere in rgpu.
#pragma once

#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL 1
#endif
#include <cuda.h>
#include <cudaProfiler.h>

extern "C" {
#define NONE(symbol, since, why) CUresult CUDAAPI symbol(void);
#define NONE_PTSZ(symbol, since, why) NONE(symbol, since, why) NONE(symbol##_ptsz, since, why)
#define NONE_PTDS(symbol, since, why) NONE(symbol, since, why) NONE(symbol##_ptds, since, why)
#include "calls/table/graphics.def"
#undef NONE
#undef NONE_PTSZ
#undef NONE_PTDS
}
