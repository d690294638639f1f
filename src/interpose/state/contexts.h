// SPDX-License-Identifier: Apache-2.0
// The calling thread's contexts, as numbers of handles. Each thread has its own; no function here
// asks the server or takes a lock.
#pragma once

#include <cstdint>

#include "calls/cuda_api.h"
#include "interpose/state/handles.h"

namespace rgpu::interpose {

// The thread's stack of contexts. current_context() is 0 with none.
HandleId current_context();
void set_current(HandleId context);  // replaces the top
void push_context(HandleId context);
HandleId pop_context();  // 0 when empty
// What a driver says of the current context before all else: INVALID_CONTEXT with none,
// CONTEXT_IS_DESTROYED.
CUresult context_state();
// A context that ends is no longer current for the caller. Elsewhere it stays, and calls answer
// that it is destroyed.
void forget_context(HandleId context);

// The current context's device, -1 with none.
CUdevice current_device();

// The thread's own default stream in its current context (cuda.h: CU_STREAM_PER_THREAD), as far as
// it was made (stub.h). The number may have ended, and been used again, since: `stamp` tells.
struct ThreadStream {
    HandleId id = 0;
    uint32_t stamp = 0;
};
ThreadStream &own_default_stream();

}  // namespace rgpu::interpose
