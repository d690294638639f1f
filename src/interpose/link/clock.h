// SPDX-License-Identifier: Apache-2.0
// The clock of everything that a connection measures or waits for.
#pragma once

#include <chrono>
#include <cstdint>

namespace rgpu::interpose {

// Nanoseconds since some moment before this process began.
inline uint64_t now_ns()
{
    return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

}  // namespace rgpu::interpose
