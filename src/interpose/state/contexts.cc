// SPDX-License-Identifier: Apache-2.0
#include "interpose/state/contexts.h"

#include <map>
#include <vector>

namespace rgpu::interpose {

namespace {

struct Thread {
    std::vector<HandleId> contexts;
    std::map<HandleId, ThreadStream> default_streams;  // by context
};
// A plain pointer: cudart calls on threads whose thread_locals are gone already.
thread_local Thread *this_thread;

Thread &thread()
{
    if (!this_thread) this_thread = new Thread;
    return *this_thread;
}

}  // namespace

HandleId current_context()
{
    return this_thread && !this_thread->contexts.empty() ? this_thread->contexts.back() : 0;
}

void set_current(HandleId context)
{
    auto &stack = thread().contexts;
    if (!stack.empty()) stack.pop_back();
    if (context) stack.push_back(context);
}

void push_context(HandleId context) { thread().contexts.push_back(context); }

HandleId pop_context()
{
    auto &stack = thread().contexts;
    if (stack.empty()) return 0;
    HandleId top = stack.back();
    stack.pop_back();
    return top;
}

CUresult context_state()
{
    const HandleId here = current_context();
    if (!here) return CUDA_ERROR_INVALID_CONTEXT;
    const Slot &s = *Handles::get().at(here);
    const bool lives = s.kind.load(std::memory_order_relaxed) == HandleKind::context &&
                       !s.done.load(std::memory_order_relaxed);
    return lives ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

void forget_context(HandleId context)
{
    if (current_context() == context) pop_context();
    thread().default_streams.erase(context);
}

CUdevice current_device()
{
    const HandleId context = current_context();
    return context ? Handles::get().at(context)->device : -1;
}

ThreadStream &own_default_stream() { return thread().default_streams[current_context()]; }

}  // namespace rgpu::interpose
