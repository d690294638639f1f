// SPDX-License-Identifier: Apache-2.0
// How the worker's devices stand now, asked without a context (wire/status.h).
#pragma once

#include <cstdint>
#include <vector>

namespace rgpu::worker {

// The body of the answer.
std::vector<uint8_t> device_status();

}  // namespace rgpu::worker
