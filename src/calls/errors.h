// SPDX-License-Identifier: Apache-2.0
// Names and texts of the driver's error codes, for cuGetErrorName and cuGetErrorString.
#pragma once

#include "calls/cuda_api.h"

namespace rgpu::calls {

// "CUDA_ERROR_INVALID_VALUE", or null for a code that cuda.h does not have.
const char *error_name(CUresult);
// "invalid argument", or null likewise.
const char *error_text(CUresult);

}  // namespace rgpu::calls
