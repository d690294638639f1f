// SPDX-License-Identifier: Apache-2.0
// NVML's functions that the server answers. nvml.h is not needed for them: calls/nvml.def says what
// their parameters are.
#pragma once

#include <array>
#include <cstdint>

#include "calls/nvml.h"

namespace rgpu::nvml {

// The function's arguments as the caller gave them, the device first; those beyond its parameters
// are anything. Returns an nvmlReturn_t. Any thread; no exception leaves it.
using NvmlArguments = std::array<uint64_t, 7>;
int forward(const calls::NvmlFunction &function, const NvmlArguments &arguments);

}  // namespace rgpu::nvml
