// SPDX-License-Identifier: Apache-2.0
// Functions in LLVM IR that lowered code calls: what is no single LLVM instruction.
#pragma once

#include <set>
#include <string>

#include "util/result.h"

namespace rgpu::softgpu::lower {

// The definitions of the named functions and of those they call; adds what these need declared.
// `internal` for a name that there is not. Any thread.
Result<std::string> prelude(const std::set<std::string, std::less<>> &names,
                            std::set<std::string, std::less<>> &declarations);

}  // namespace rgpu::softgpu::lower
