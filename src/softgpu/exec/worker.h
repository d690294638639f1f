// SPDX-License-Identifier: Apache-2.0
// An OS thread while it works on a grid.
#pragma once

#include <cstdint>
#include <string>

#include "softgpu/exec/coroutine.h"

namespace rgpu::softgpu::exec {

class Block;

struct Worker {
    Coroutine scheduler;     // the stack the OS gave it
    Block *block = nullptr;  // that it runs now
    uint32_t sm_id = 0;
    std::string text;  // see device_library.cc
    // Filled by the signal handler, read by the fiber's stack that it restarts.
    int signal = 0;
    uint64_t address = 0, error = 0, trap = 0;
};

}  // namespace rgpu::softgpu::exec
