// SPDX-License-Identifier: Apache-2.0
// NCCL for the program: what our libnccl.so.2 hands over (src/nccl), which itself does nothing.
#pragma once

#include <cstdint>

namespace rgpu::interpose::nccl {

// One call, of that name, with its arguments as words (request.h). Returns what the function
// returns: an ncclResult_t, or the address of a text. Any thread; throws for lack of memory alone.
uint64_t call(const char *name, const uint64_t *words);

}  // namespace rgpu::interpose::nccl
