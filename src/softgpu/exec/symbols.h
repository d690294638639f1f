// SPDX-License-Identifier: Apache-2.0
// The functions of this process that kernels may call: rt_*, libm, and what compilers call by
// themselves.
#pragma once

#include <cstdint>
#include <string_view>

namespace rgpu::softgpu::exec {

// The function's address, or 0.
uint64_t runtime_symbol(std::string_view name);

}  // namespace rgpu::softgpu::exec
