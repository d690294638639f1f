// SPDX-License-Identifier: Apache-2.0
// Made anew whenever a source of the compiler changes (Makefile).
#include "softgpu/lower/module.h"

namespace rgpu::softgpu::lower {

const char *const kCompilerSources = RGPU_COMPILER_SOURCES;

}  // namespace rgpu::softgpu::lower
