// cuda.h with every ABI symbol declared (cuMemAlloc and cuMemAlloc_v2, cuLaunchKernel_ptsz, ...),
// none hidden behind a macro. Include this instead of cuda.h everywhere in rgpu.
#pragma once

#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL 1
#endif
#include <cuda.h>
#include <cudaProfiler.h>
