// SPDX-License-Identifier: Apache-2.0
// What stands for the worker's pid in filters that are made before there is one. No process has it:
// pids end at 4194304 (proc(5), pid_max).
#pragma once

#include <cstdint>

namespace rgpu::serverd {

inline constexpr uint32_t kOwnPid = 0x7fffffff;

}  // namespace rgpu::serverd
