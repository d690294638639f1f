// SPDX-License-Identifier: Apache-2.0
// The door of librgpu-ptx.so, the only part that links LLVM: LLVM IR as text in, an x86-64
// relocatable object out. Opened with dlopen by lower/backend.cc.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

using rgpu_compile_done = void(void *context, const uint8_t *object, size_t bytes);

// Compiles for this host's CPU. Calls `done` once with the object and returns 0, or returns 1 with
// the reason in `error`. Any thread, several at once.
int rgpu_compile_ir(const char *ir, size_t bytes, rgpu_compile_done *done, void *context,
                    char *error, size_t error_bytes);
using rgpu_compile_ir_function = decltype(rgpu_compile_ir);
}
