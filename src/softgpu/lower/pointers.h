// SPDX-License-Identifier: Apache-2.0
// Which registers hold pointers.
#pragma once

#include <cstdint>
#include <vector>

#include "softgpu/ptx/ast.h"

namespace rgpu::softgpu::lower {

// For every register: 0 no pointer, 1 perhaps one, 2 a pointer.
std::vector<uint8_t> find_pointers(const ptx::Function &, const ptx::Body &);

}  // namespace rgpu::softgpu::lower
