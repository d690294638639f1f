// SPDX-License-Identifier: Apache-2.0
// The elements of arrays: CUDA Driver API, CUarray_format.
#pragma once

#include "calls/cuda_api.h"

namespace rgpu::calls {

// Bytes of one channel; 0 for formats that are not made of such elements.
constexpr unsigned format_bytes(CUarray_format f)
{
    switch (f) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8: return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF: return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT: return 4;
    default: return 0;
    }
}

}  // namespace rgpu::calls
