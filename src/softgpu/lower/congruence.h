// SPDX-License-Identifier: Apache-2.0
// What is known of registers modulo 32, so that most accesses need no check of their alignment.
#pragma once

#include <cstdint>
#include <vector>

#include "softgpu/lower/unit.h"

namespace rgpu::softgpu::lower {

// A value is congruent to (root + addend) modulo 1 << log. The root is nothing, or a kernel
// parameter's value, which is the same for all threads: then the check is not repeated in loops.
struct Congruence {
    static constexpr uint8_t kMost = 5;  // no access is wider than 32 bytes
    static constexpr int32_t kNoRoot = -1;

    bool seen = false;  // anything is known; a register that nothing writes has no value
    uint8_t log = 0;    // 0: nothing is known
    uint8_t addend = 0;
    int32_t root = kNoRoot;  // the parameter's offset in bytes

    bool operator==(const Congruence &) const = default;
};

// For every register, over all that is ever written to it. `unit` tells where shared variables lie.
std::vector<Congruence> find_congruences(const Unit &unit, const ptx::Function &,
                                         const ptx::Body &);

// Does anything in it read or write memory, other than parameters.
bool touches_memory(const ptx::Body &);

}  // namespace rgpu::softgpu::lower
