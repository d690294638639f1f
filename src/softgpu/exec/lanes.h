// SPDX-License-Identifier: Apache-2.0
// Sets of a warp's lanes, as bits, and arrays with an element a lane.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "softgpu/exec/limits.h"

namespace rgpu::softgpu::exec {

inline uint32_t first_of(uint32_t lanes) { return static_cast<uint32_t>(std::countr_zero(lanes)); }
inline uint32_t lowest(uint32_t count) { return count >= kWarp ? ~0u : (1u << count) - 1; }

// Do all lanes have the same? Vectors of GCC's: the loop over elements is not made one at -O2.
inline bool all_same(const uint32_t *of)
{
    using Four = uint32_t __attribute__((vector_size(16)));
    const Four wanted = {of[0], of[0], of[0], of[0]};
    Four different = {};
    for (uint32_t i = 0; i < kWarp; i += 4) {
        Four some;
        memcpy(&some, of + i, sizeof some);
        different |= some ^ wanted;
    }
    return !(different[0] | different[1] | different[2] | different[3]);
}

// Those of the lanes who have what the first of them has.
inline uint32_t same_as_first(const uint32_t *of, uint32_t lanes)
{
    if (all_same(of)) return lanes;
    const uint32_t wanted = of[first_of(lanes)];
    uint32_t same = 0;
    for (uint32_t i = 0; i < kWarp; ++i) same |= uint32_t{of[i] == wanted} << i;
    return same & lanes;
}

}  // namespace rgpu::softgpu::exec
