// SPDX-License-Identifier: Apache-2.0
// A GPU's UUID as nvidia-smi prints it.
#pragma once

#include <cstdio>
#include <string>

#include "calls/cuda_api.h"

namespace rgpu::calls {

// "GPU-01234567-89ab-cdef-0123-456789abcdef".
inline std::string uuid_text(const CUuuid &uuid)
{
    std::string out = "GPU";
    for (int i = 0; i < 16; i++) {
        char hex[4];
        snprintf(hex, sizeof hex, "%02x", static_cast<unsigned char>(uuid.bytes[i]));
        if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) out += '-';
        out += hex;
    }
    return out;
}

}  // namespace rgpu::calls
