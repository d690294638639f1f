// SPDX-License-Identifier: Apache-2.0
// Changed bytes of mirrored memory, as either side applies them.
#include <cstdlib>
#include <cstring>
#include <vector>

#include "wire/diff.h"

using namespace rgpu::wire;

namespace {

// A range whose size is no multiple of a unit.
constexpr size_t kRange = 5 * kDiffUnit + 17;

bool apply(const uint8_t *diff, size_t bytes, uint8_t *to)
{
    return apply_diff(diff, bytes, kRange, [&](size_t at, const uint8_t *from, size_t n) {
        if (at > kRange || n > kRange - at || from < diff || from + n > diff + bytes) abort();
        memcpy(to + at, from, n);
    });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    std::vector<uint8_t> memory(kRange), twin(kRange);
    if (!apply(data, bytes, memory.data())) return 0;
    // What it has made of the memory is found again, and makes the same.
    const std::vector<uint8_t> zeros(kRange);
    std::vector<uint8_t> made, other(kRange);
    if (make_diff(memory.data(), twin.data(), kRange, 0, SIZE_MAX, made) != kRange) abort();
    if (twin != memory || !apply(made.data(), made.size(), other.data()) || other != memory)
        abort();
    return 0;
}
