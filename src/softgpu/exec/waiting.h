// SPDX-License-Identifier: Apache-2.0
// Who waits in a block where no thread can go on.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "softgpu/exec/limits.h"
#include "softgpu/exec/warp.h"

namespace rgpu::softgpu::exec {

struct Waiting {
    uint32_t at_barrier[kBarriers] = {};  // threads
    uint32_t expected[kBarriers] = {};
    std::vector<std::pair<uint32_t, Meeting>> meetings;  // each with its warp's number
};

}  // namespace rgpu::softgpu::exec
