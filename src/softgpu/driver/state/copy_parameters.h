// SPDX-License-Identifier: Apache-2.0
// What CUDA's structures of copies describe, as a Copy.
//
// INVALID_VALUE for a null structure, an unknown kind of memory, or a box that is not inside its
// array; INVALID_HANDLE for what is no array. Memory is not looked at: check() does that.
#pragma once

#include "calls/cuda_api.h"
#include "softgpu/driver/state/copy.h"

namespace rgpu::softgpu::driver {

CUresult read_copy(const CUDA_MEMCPY2D *, Copy &);
CUresult read_copy(const CUDA_MEMCPY3D *, Copy &);
CUresult read_copy(const CUDA_MEMCPY3D_PEER *, Copy &);

}  // namespace rgpu::softgpu::driver
