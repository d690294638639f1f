// SPDX-License-Identifier: Apache-2.0
// The parser: module text to tables, and one function's body to instructions.
#pragma once

#include <functional>
#include <string_view>

#include "softgpu/ptx/ast.h"
#include "softgpu/ptx/lexer.h"
#include "util/result.h"

namespace rgpu::softgpu::ptx {

// Called for each function's body when it was parsed; an Error ends the parsing.
using BodyVisitor = std::function<Result<void>(const Function &, const Body &)>;

// Parses a whole module. The text must outlive the result. Bodies are not kept, since they
// take several times their text, and a library has 40 MB of it: `visit` sees each once.
Result<Module> parse_module(std::string_view text, const BodyVisitor &visit);

// Parses the body of a function of a module that parse_module() took, to compile it.
Result<Body> parse_body(const Function &);

}  // namespace rgpu::softgpu::ptx
