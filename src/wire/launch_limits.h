// SPDX-License-Identifier: Apache-2.0
// What a driver takes at a launch, as the server tells the client with a function.
#pragma once

#include <cstdint>

namespace rgpu::wire {

// On the device of the context that was current when the server was asked. threads 0: it does not
// say.
struct LaunchLimits {
    uint32_t threads = 0;         // CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK
    uint32_t dynamic_shared = 0;  // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
};

}  // namespace rgpu::wire
