// SPDX-License-Identifier: Apache-2.0
// By this name of a thread NVML knows the programs that are connected.
#pragma once

namespace rgpu::interpose {

inline constexpr char kThreadName[] = "rgpu-pump";

}  // namespace rgpu::interpose
