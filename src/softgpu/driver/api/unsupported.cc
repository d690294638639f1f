// SPDX-License-Identifier: Apache-2.0
// The calls that softgpu does not carry out: a weak definition of every symbol in the table, which
// the real one, where there is one, takes the place of. The prototypes do not matter, so none is
// copied: each definition has a name of its own here, and the call's name for the linker.
#include <atomic>

#include "calls/cuda_api.h"
#include "softgpu/driver/base/log.h"

namespace {

CUresult refuse(const char *symbol, std::atomic<bool> &said)
{
    if (!said.exchange(true))
        rgpu::softgpu::driver::complain("%s is not supported by the software GPU", symbol);
    return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace

#define ROW(symbol, ...) \
    extern "C" \
        [[gnu::weak, gnu::visibility("default")]] CUresult refuse_##symbol() __asm__(#symbol); \
    CUresult refuse_##symbol() \
    { \
        static std::atomic<bool> said; \
        return refuse(#symbol, said); \
    }
#include "calls/table.def"
