// SPDX-License-Identifier: Apache-2.0
#include "softgpu/driver/state/current.h"

#include <cstdlib>
#include <new>

#include "softgpu/driver/state/context.h"
#include "softgpu/driver/state/driver.h"

namespace rgpu::softgpu::driver {

namespace {

// No destructor: the main thread's is used after its thread_local objects are gone.
struct Stack {
    Context **items;
    size_t count, room;
};
thread_local Stack stack;

}  // namespace

Context *current_context() { return stack.count ? stack.items[stack.count - 1] : nullptr; }

void push_context(Context *c)
{
    if (stack.count == stack.room) {
        const size_t room = stack.room ? 2 * stack.room : 8;
        void *more = realloc(stack.items, room * sizeof *stack.items);
        if (!more) throw std::bad_alloc();
        stack.items = static_cast<Context **>(more);
        stack.room = room;
    }
    stack.items[stack.count++] = c;
}

Context *pop_context() { return stack.count ? stack.items[--stack.count] : nullptr; }

void set_current_context(Context *c)
{
    pop_context();
    if (c) push_context(c);
}

CUresult usable_context(Context *&c)
{
    c = current_context();
    return c ? c->usable() : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult find_stream(CUstream handle, std::shared_ptr<Stream> &stream)
{
    const bool null = !handle;
    if (null || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) {
        Context *c;
        if (CUresult rc = usable_context(c)) return rc;
        const bool mine = null ? t_null_stream_is_per_thread : handle == CU_STREAM_PER_THREAD;
        stream = mine ? c->streams.of_thread() : c->streams.legacy();
        return CUDA_SUCCESS;
    }
    stream = driver().streams.find(handle);
    return stream ? stream->context.usable() : CUDA_ERROR_INVALID_HANDLE;
}

}  // namespace rgpu::softgpu::driver
