// SPDX-License-Identifier: Apache-2.0
// Looks error codes up in errors.def.
#include "calls/errors.h"

namespace rgpu::calls {

const char *error_name(CUresult code)
{
    switch (code) {
        // clang-format off
#define RGPU_ERROR(code, text) case code: return #code;
#include "calls/errors.def"
        // clang-format on
    }
    return nullptr;
}

const char *error_text(CUresult code)
{
    switch (code) {
        // clang-format off
#define RGPU_ERROR(code, text) case code: return text;
#include "calls/errors.def"
        // clang-format on
    }
    return nullptr;
}

}  // namespace rgpu::calls
