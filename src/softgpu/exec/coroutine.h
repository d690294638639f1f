// SPDX-License-Identifier: Apache-2.0
// A stack of its own that runs one body after another and can be left and resumed at any point,
// on any OS thread: what a CUDA thread runs on.
//
// A coroutine belongs to whoever holds the pointer; one OS thread runs it at a time. Idle ones
// (their body has returned, or they were reset) wait in a pool by size.
#pragma once

#include <cstddef>
#include <cstdint>

#include "softgpu/exec/sanitizer.h"

namespace rgpu::softgpu::exec {

class Coroutine {
public:
    using Body = void (*)(void *argument);

    // From the pool, or a new one with at least `stack_bytes`; null when memory is out. Body comes
    // with start().
    static Coroutine *take(size_t stack_bytes);
    // Back into the pool; must be idle.
    static void give(Coroutine *);

    // The stack the OS gave this thread, as a coroutine to come back to.
    static void adopt_os_thread(Coroutine &);

    // What an idle coroutine does when it is resumed next. A body that is done must leave by
    // switch_to(); when that returns, a new body has been set and the old one must return.
    void set_body(Body body, void *argument) { body_ = body, argument_ = argument; }

    // Forgets whatever it was doing, without unwinding it: idle again. Not the running one.
    void reset();

    // Leaves `from`, which must be running here, for `to`. Returns when somebody resumes `from`.
    static void switch_to(Coroutine &from, Coroutine &to);

    // Whether the address lies in the guard page below the stack.
    bool is_guard(uint64_t address) const
    {
        return guard_ && address >= reinterpret_cast<uint64_t>(base_) - guard_ &&
               address < reinterpret_cast<uint64_t>(base_);
    }
    // Where a signal handler can restart this stack from: it forgets all that is on it.
    uint8_t *top() const { return base_ + size_; }
    void about_to_restart() { sanitized_.unpoison(base_, size_); }

    Coroutine *next = nullptr;  // for lists of whoever owns it

private:
    friend void coroutine_main(Coroutine *);
    static Coroutine *make(size_t stack_bytes);
    static void destroy(Coroutine *);

    void *sp_ = nullptr;
    Body body_ = nullptr;
    void *argument_ = nullptr;
    uint8_t *base_ = nullptr;  // lowest usable byte
    size_t size_ = 0, guard_ = 0;
    [[no_unique_address]] SanitizedStack sanitized_;
};

}  // namespace rgpu::softgpu::exec
