// SPDX-License-Identifier: Apache-2.0
// What loads, stores and atomics share.
#pragma once

#include "softgpu/lower/lower.h"

namespace rgpu::softgpu::lower {

// The state space that the instruction names; none: generic.
Space space_of(const Lower &);

// LLVM's name for the instruction's memory order.
std::string ordering(const Lower &, bool load, bool store);

}  // namespace rgpu::softgpu::lower
