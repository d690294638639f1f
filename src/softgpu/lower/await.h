// SPDX-License-Identifier: Apache-2.0
// Finds loops that wait for what another block stores, without saying so by a volatile load.
#pragma once

#include <cstdint>
#include <vector>

#include "softgpu/lower/flow.h"
#include "softgpu/ptx/ast.h"

namespace rgpu::softgpu::lower {

// True where threads meet in a loop and leave it by what a load from one and the same place in
// global memory gives.
bool awaits_store(const ptx::Body &, const Flow &, const std::vector<Cut> &);

}  // namespace rgpu::softgpu::lower
