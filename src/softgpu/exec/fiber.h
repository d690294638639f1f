// SPDX-License-Identifier: Apache-2.0
// A CUDA thread as a fiber, and the lists that fibers wait in.
//
// Fibers belong to their block, and only the OS thread that runs the block touches them.
#pragma once

#include <cstdint>

#include "softgpu/abi.h"
#include "softgpu/exec/coroutine.h"

namespace rgpu::softgpu::exec {

class Threads;
struct Warp;

enum class Wait : uint8_t { none, barrier, meeting, convergence };

// One thread of the block.
struct Fiber {
    ThreadState thread;        // what generated code sees; engine = this fiber
    Threads *block = nullptr;  // the threads of its block
    Warp *warp = nullptr;
    Coroutine *stack = nullptr;  // null: not started, or ended
    Fiber *next = nullptr;       // in the one list it is in
    uint32_t result = 0;         // of a barrier's reduction
    Wait wait = Wait::none;      // for reports
    uint8_t barrier = 0;

    uint32_t bit() const { return uint32_t{1} << thread.lane; }
};

// A fiber is in one list at most.
struct FiberList {
    Fiber *head = nullptr, *tail = nullptr;

    bool empty() const { return !head; }
    void push_back(Fiber &f)
    {
        f.next = nullptr;
        (head ? tail->next : head) = &f;
        tail = &f;
    }
    void push_front(Fiber &f)
    {
        f.next = head;
        if (!head) tail = &f;
        head = &f;
    }
    Fiber *pop()
    {
        Fiber *f = head;
        if (f) head = f->next;
        return f;
    }
    // Both leave `other` empty.
    void append(FiberList &other)
    {
        if (!other.head) return;
        (head ? tail->next : head) = other.head;
        tail = other.tail;
        other = {};
    }
    void prepend(FiberList &other)
    {
        other.append(*this);
        *this = other;
        other = {};
    }
};

inline Fiber &fiber_of(ThreadState *t) { return *static_cast<Fiber *>(t->engine); }

}  // namespace rgpu::softgpu::exec
