// SPDX-License-Identifier: Apache-2.0
// What is asked of the server, and what is refused. nvml.h is not included: these functions look at
// no argument, and a function that this toolkit's header does not know is answered all the same.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "calls/nvml.h"
#include "nvml/forward.h"

#define EXPORT extern "C" [[gnu::visibility("default")]]

EXPORT int nvmlDeviceGetCount_v2(unsigned *);

// NVML_ERROR_NOT_SUPPORTED; NVML_ERROR_UNINITIALIZED before nvmlInit.
static int none()
{
    unsigned count = 0;
    const int r = nvmlDeviceGetCount_v2(&count);
    return r ? r : 3;
}

static int denied()
{
    unsigned count = 0;
    const int r = nvmlDeviceGetCount_v2(&count);
    return r ? r : rgpu::calls::kNvmlNoPermission;
}

// As many parameters as any has, each in a register or a place on the stack.
using Word = uint64_t;
#define FORWARD(name, parameters, software) \
    EXPORT int name(Word a, Word b, Word c, Word d, Word e, Word f, Word g) \
    { \
        static const rgpu::calls::NvmlFunction *const function = rgpu::calls::find_nvml(#name); \
        return rgpu::nvml::forward(*function, {a, b, c, d, e, f, g}); \
    }
#define PAIR(name, parameters, software, apart) FORWARD(name, parameters, software)
#define DENIED(name) \
    EXPORT int name() { return denied(); }
#define NONE(name) \
    EXPORT int name() { return none(); }
#include "calls/nvml.def"

// NVIDIA's nvidia-smi does not begin without this: by an UUID it gets a table of functions that
// nobody documents (its size in bytes, then the functions). It takes NOT_SUPPORTED from each (seen
// with 535.261.03, which calls the 25th, 71st, 80th and 212th), so that is what the whole table
// answers.
EXPORT int nvmlInternalGetExportTable(const void **table, const void *uuid)
{
    static constexpr unsigned char kKnown[16] = {0xc4, 0xfe, 0x3e, 0x6c, 0xc9, 0x8f, 0x6c, 0x4e,
                                                 0xa3, 0x27, 0xee, 0x69, 0x6e, 0x12, 0xf7, 0xc4};
    static const std::array<const void *, 1024> all = [] {
        std::array<const void *, 1024> a;
        a.fill(reinterpret_cast<const void *>(&none));
        a[0] = reinterpret_cast<const void *>(sizeof a);
        return a;
    }();
    if (!table || !uuid) return 2;                      // NVML_ERROR_INVALID_ARGUMENT
    if (memcmp(uuid, kKnown, sizeof kKnown)) return 6;  // NVML_ERROR_NOT_FOUND
    *table = all.data();
    return 0;
}
