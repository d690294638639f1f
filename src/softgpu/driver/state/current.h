// SPDX-License-Identifier: Apache-2.0
// What a call means without saying so: the context that the calling thread uses, and the stream
// that a null handle stands for.
//
// Each thread has a stack of contexts. The stacks own nothing: contexts are never freed.
#pragma once

#include <memory>

#include "calls/cuda_api.h"

namespace rgpu::softgpu::driver {

class Context;
class Stream;

// Top of the calling thread's stack, or null.
Context *current_context();
void push_context(Context *);
Context *pop_context();               // null when the stack is empty
void set_current_context(Context *);  // null takes the top away

// The current context, if calls may use it; INVALID_CONTEXT, or the context's error.
CUresult usable_context(Context *&);

// What a null stream means to the call that this thread is in. The exported call sets it.
inline thread_local bool t_null_stream_is_per_thread = false;

// The stream that a handle means to the calling thread, if its context may be used.
// CUDA_ERROR_INVALID_HANDLE when there is none.
CUresult find_stream(CUstream, std::shared_ptr<Stream> &);

}  // namespace rgpu::softgpu::driver
