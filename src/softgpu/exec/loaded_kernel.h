// SPDX-License-Identifier: Apache-2.0
// A kernel's code in memory, as the scheduler sees it.
//
// Never changes, but for the functions that are made at their first call; any thread runs it,
// several at once. Owns the memory, which goes with the last reference: whoever launches keeps one
// until the grid has ended.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "softgpu/engine.h"
#include "softgpu/exec/function_table.h"

namespace rgpu::softgpu::exec {

// What LoadedKernel::load() makes.
class KernelCode final : public LoadedKernel {
public:
    KernelCode(void *image, size_t bytes, uint64_t entry, bool per_thread, size_t stack_bytes,
               FunctionSource functions)
        : functions(std::move(functions)), entry(entry), per_thread(per_thread),
          stack_bytes(stack_bytes), image_(image), bytes_(bytes)
    {}
    ~KernelCode() override;

    // Runs one thread of a "thread" kernel, or one block of a "block" kernel, on the stack that
    // calls.
    void operator()(ThreadState *t) const { reinterpret_cast<void (*)(ThreadState *)>(entry)(t); }
    void operator()(BlockState *b) const { reinterpret_cast<void (*)(BlockState *)>(entry)(b); }

    mutable FunctionTable functions;  // that it calls through their addresses
    const uint64_t entry;
    const bool per_thread;
    const size_t stack_bytes;  // with the engine's own reserve

private:
    void *image_;
    size_t bytes_;
};

}  // namespace rgpu::softgpu::exec
