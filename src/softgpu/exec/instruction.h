// SPDX-License-Identifier: Apache-2.0
// The memory operand of the x86 instruction at which a #GP was raised.
#pragma once

#include <cstdint>
#include <optional>

#include <ucontext.h>

namespace rgpu::softgpu::exec {

// The CPU does not tell the address of a general protection fault: it is either a misaligned SSE or
// AVX operand or an address that is no address. Empty where the instruction is not understood.
std::optional<uint64_t> operand_address(const ucontext_t &);

}  // namespace rgpu::softgpu::exec
