// SPDX-License-Identifier: Apache-2.0
// What the client knows of a function or kernel: how its parameters lie, learned when it was found.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "interpose/code/known_launches.h"
#include "interpose/state/handles.h"
#include "wire/module_bodies.h"

namespace rgpu::interpose {

struct FunctionInfo {
    std::string name;
    std::vector<wire::FunctionParameter> parameters;
    uint32_t parameter_bytes = 0;
    HandleId owner = 0;  // its module or library
    mutable KnownLimits limits;
};

// Null when the handle is none of ours. A CUkernel is looked up as a CUfunction.
inline const FunctionInfo *function_info(CUfunction f)
{
    Slot *s = Handles::get().slot(f);
    return s ? static_cast<const FunctionInfo *>(s->data.load(std::memory_order_acquire)) : nullptr;
}

// Where several servers are: NOT_SUPPORTED, and a line on standard error, for code of a library
// whose managed variables are another server's than calls go to.
CUresult may_run_here(HandleId library);

}  // namespace rgpu::interpose
