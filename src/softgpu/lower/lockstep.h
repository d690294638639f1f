// SPDX-License-Identifier: Apache-2.0
// Where the lanes of a warp must wait for each other so that shared memory looks to them as it does
// on a GPU, whose warps carry an instruction out for all lanes before the next one.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "softgpu/lower/flow.h"
#include "softgpu/ptx/ast.h"

namespace rgpu::softgpu::lower {

// What stands before an instruction: nothing, or lanes wait for those of their warp that are
// behind; `spins`: and let other warps run.
enum class Step : uint8_t { none, waits, spins };

enum class Lockstep : uint8_t {
    declared,  // of volatile shared memory only
    all        // of all accesses of shared memory by which lanes may see each other
};

// Does the instruction with this opcode touch shared memory that matters so?
bool is_seen(std::string_view opcode, Lockstep);
// For every instruction. `meetings`: those at which all lanes wait in any case.
std::vector<Step> find_steps(const ptx::Body &, const std::vector<uint8_t> &meetings, Lockstep);
// A quick look: false where there cannot be any.
bool may_have_steps(const ptx::Body &);

}  // namespace rgpu::softgpu::lower
