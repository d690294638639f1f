// SPDX-License-Identifier: Apache-2.0
// Questions to NVML that a client passes on (wire/nvml.h).
#pragma once

#include <cstdint>
#include <vector>

#include "wire/codec.h"

namespace rgpu::worker {

// The body of the answer to one: NVML's own, or what a software GPU answers. Nothing that the
// client sends makes NVML write past what it is given: sizes are those of calls/nvml.def, and of
// the structs that say their own, as NVML checks that.
std::vector<uint8_t> answer_nvml(wire::Reader question);

}  // namespace rgpu::worker
