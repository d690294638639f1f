// SPDX-License-Identifier: Apache-2.0
// An OS thread while it works on a grid.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "softgpu/exec/coroutine.h"

namespace rgpu::softgpu::exec {

class Block;
struct Fiber;

// A call of a function that has no code yet.
struct LateCall {
    const Fiber *caller;
    uint64_t address, signature;
};

struct Worker {
    Coroutine scheduler;     // the stack the OS gave it
    Block *block = nullptr;  // that it runs now
    uint32_t sm_id = 0;
    std::string text;                   // see device_library.cc
    std::optional<LateCall> late_call;  // for the scheduler to make: late_call.cc
    // Filled by the signal handler, read by the fiber's stack that it restarts.
    int signal = 0;
    uint64_t address = 0, error = 0, trap = 0;
};

}  // namespace rgpu::softgpu::exec
