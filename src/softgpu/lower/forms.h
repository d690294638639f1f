// SPDX-License-Identifier: Apache-2.0
// The forms of a body's instructions.
#pragma once

#include <string_view>
#include <unordered_map>
#include <vector>

#include "softgpu/lower/table.h"
#include "softgpu/ptx/ast.h"
#include "util/result.h"

namespace rgpu::softgpu::lower {

// One for each instruction, in their order. Forms live for ever.
using Forms = std::vector<const Form *>;

// Looks instructions up in the table, each opcode once. Belongs to one thread, and lives no longer
// than the text of what it has seen.
class FormFinder {
public:
    // An instruction that the table does not have fails the kernel that reaches it: programs carry
    // some that never run. With RGPU_SOFTGPU_STRICT=1 in the environment it is `unsupported` here,
    // with its text.
    Result<Forms> find(const ptx::Body &);

private:
    std::unordered_map<std::string_view, const Form *> known_;
};

inline constexpr char kUnknown[] = "the software GPU does not know this instruction";

// "PTX line 12: 'add.s32 ...': why"
Error refuse(const ptx::Instruction &, const char *why, ErrorKind = ErrorKind::unsupported);

}  // namespace rgpu::softgpu::lower
