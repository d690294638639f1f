// SPDX-License-Identifier: Apache-2.0
// The sentences about what went wrong in a kernel. Called on the OS thread that runs the block.
#pragma once

#include <string>

#include "softgpu/exec/block.h"
#include "softgpu/exec/waiting.h"

namespace rgpu::softgpu::exec {

// "block (1,0,0), thread (33,0,0)": where the worker is now.
std::string where(const Block &);
// The same of one of its fibers.
std::string where(const Block &, const Fiber &);
// CUDA's "block: [1,0,0], thread: [33,0,0]".
std::string where_cuda(const Block &);
// Who waits for whom, when no thread of a block can go on.
std::string describe_deadlock(const BlockState &, const Waiting &);
std::string describe_deadlock(const Block &);

}  // namespace rgpu::softgpu::exec
