// The calls that softgpu does not carry out: a weak definition of every symbol in the table, which the
// real one, where there is one, takes the place of. cuda.h is not included here: the prototypes do not matter.
#include <atomic>

#include "softgpu/driver/log.h"

namespace {

constexpr int kNotSupported = 801;  // CUDA_ERROR_NOT_SUPPORTED

int refuse(const char *symbol, std::atomic<bool> &said)
{
    if (!said.exchange(true)) rgpu::softgpu::driver::complain("%s is not supported by the software GPU", symbol);
    return kNotSupported;
}

}  // namespace

#define ROW(symbol, since, mode, code, text) \
    extern "C" [[gnu::weak, gnu::visibility("default")]] int symbol() \
    { \
        static std::atomic<bool> said; \
        return refuse(#symbol, said); \
    }
#include "calls/table.def"
