// SPDX-License-Identifier: Apache-2.0
// Where loops begin and end, for kernels whose lanes ask who is with them.
#pragma once

#include <cstdint>
#include <vector>

#include "softgpu/ptx/ast.h"

namespace rgpu::softgpu::lower {

// Of an instruction: whether a natural loop begins there, or some have just ended, and how many are
// around it.
struct Nest {
    enum Kind : uint8_t { inside, header, behind } kind = inside;
    uint32_t depth = 0;  // of a header: without its own
};

// The loops around every instruction.
std::vector<Nest> find_nest(const ptx::Body &);

}  // namespace rgpu::softgpu::lower
