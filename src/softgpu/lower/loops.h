// SPDX-License-Identifier: Apache-2.0
// The control flow of a body: what follows an instruction, what stands in a loop, what is read.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "softgpu/ptx/ast.h"

namespace rgpu::softgpu::lower {

// For every node of a graph: is it in a circle. `next` lists where the node's edges lead.
using Successors = std::function<void(uint32_t node, std::vector<uint32_t> &next)>;
std::vector<uint8_t> find_cyclic(uint32_t nodes, const Successors &);
// For every instruction: is it inside a loop.
std::vector<uint8_t> find_loops(const ptx::Body &);
// The instructions that may come after one.
void successors(const ptx::Body &, uint32_t instruction, std::vector<uint32_t> &out);
// True where a register operand is read by any instruction.
bool is_read(const ptx::Body &, uint32_t reg);

}  // namespace rgpu::softgpu::lower
