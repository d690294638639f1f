// SPDX-License-Identifier: Apache-2.0
// What is known of registers' values across the lanes of a warp that run together.
#pragma once

#include <cstdint>
#include <vector>

#include "softgpu/lower/flow.h"
#include "softgpu/lower/lockstep.h"
#include "softgpu/lower/unit.h"
#include "softgpu/ptx/ast.h"

namespace rgpu::softgpu::lower {

struct Values {
    // For every register: 1 where lanes with the same %tid.y and %tid.z that have always run
    // together may yet hold different values in it.
    std::vector<uint8_t> varies;
    // For every register: the instruction that makes it anywhere and at any time of what a thread
    // knows from its beginning, or kNever.
    std::vector<uint32_t> again;
    // For every block of the flow: 1 where such lanes may come to it in different numbers.
    std::vector<uint8_t> divergent;
    // Instructions before which lanes that part must be together again: else those that leave a cut
    // out could come to it in a later turn of a loop while others are there in this one, or touch
    // shared memory before those that stand there.
    std::vector<uint32_t> joins;
    static constexpr uint32_t kNever = UINT32_MAX;
};

Values find_values(const Unit &, const ptx::Function &, const ptx::Body &, const Flow &, Lockstep);

}  // namespace rgpu::softgpu::lower
