// SPDX-License-Identifier: Apache-2.0
// What the functions of one kernel share while they are lowered.
//
// Made for one compilation, on the thread that compiles.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "softgpu/ptx/ast.h"

namespace rgpu::softgpu::lower {

struct Unit {
    bool per_thread = false;  // kind "thread" (abi.h)
    bool converges = false;   // it asks which lanes are together
    bool exits = false;       // a function of the kernel may end the thread
    bool parallel = false;    // the block's threads are iterations of a loop without dependences
    bool late = false;        // functions called through prototypes are in no object yet
    const ptx::Function *exported = nullptr;          // a function that such calls may reach
    uint32_t sites = 0;                               // numbers given to warp operations so far
    std::set<std::string, std::less<>> declarations;  // of what the kernel uses
    std::set<std::string, std::less<>> helpers;       // of the prelude
    std::set<std::string, std::less<>> globals;       // module variables used
    std::set<std::string, std::less<>> constants;     // definitions of the kernel's own texts
    std::map<std::string_view, uint32_t> shared;      // offsets of .shared variables
    // Looks a name up in the module.
    struct Symbol {
        enum Kind { none, variable, function } kind = none;
        const ptx::Variable *variable_ = nullptr;
        const ptx::Function *function_ = nullptr;
    };
    virtual Symbol find(std::string_view name) const = 0;
    // The functions whose address the program can know and whose parameters are these.
    virtual std::vector<const ptx::Function *> targets(const ptx::Prototype &) const = 0;
    virtual ~Unit() = default;
};

}  // namespace rgpu::softgpu::lower
