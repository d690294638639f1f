// SPDX-License-Identifier: Apache-2.0
// Finds threads that spin until another one has done something.
#pragma once

#include "softgpu/lower/forms.h"
#include "softgpu/ptx/ast.h"

namespace rgpu::softgpu::lower {

// May a thread of this function? `cut`: in a kernel that is cut, where loads of volatile shared
// memory are steps.
bool spins(const ptx::Function &, const ptx::Body &, const Forms &, bool cut);

}  // namespace rgpu::softgpu::lower
