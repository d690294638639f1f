// SPDX-License-Identifier: Apache-2.0
// Coroutines: the context switch, stacks with guard pages, and their pool.
#include "softgpu/exec/coroutine.h"

#include <atomic>
#include <bit>
#include <iterator>
#include <mutex>

#include <pthread.h>
#include <sys/mman.h>

#include "softgpu/exec/limits.h"

// The System V ABI has a call preserve rbx, rbp, r12-r15, rsp, the control bits of mxcsr and the
// x87 control word; nothing else needs saving. Loading mxcsr or the x87 word is slow, and they
// seldom differ. The return goes through a register: a `ret` would be mispredicted every time,
// since it never returns to its own call.
asm(R"(
    .text
    .p2align 4
    .local rgpu_softgpu_switch
    .type rgpu_softgpu_switch, @function
rgpu_softgpu_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    subq $8, %rsp
    stmxcsr (%rsp)
    fnstcw 4(%rsp)
    movl (%rsp), %eax
    movzwl 4(%rsp), %edx
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    cmpl %eax, (%rsp)
    jne 1f
3:  cmpw %dx, 4(%rsp)
    jne 2f
4:  addq $8, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    popq %rcx
    jmpq *%rcx
1:  ldmxcsr (%rsp)
    jmp 3b
2:  fldcw 4(%rsp)
    jmp 4b
    .size rgpu_softgpu_switch, .-rgpu_softgpu_switch

    .p2align 4
    .local rgpu_softgpu_start
    .type rgpu_softgpu_start, @function
rgpu_softgpu_start:
    .cfi_startproc
    .cfi_undefined rip
    movq %r12, %rdi
    call *%r13
    ud2
    .cfi_endproc
    .size rgpu_softgpu_start, .-rgpu_softgpu_start
)");

extern "C" {
[[gnu::visibility("hidden")]] void rgpu_softgpu_switch(void **save, void *to);
[[gnu::visibility("hidden")]] void rgpu_softgpu_start();
}

namespace rgpu::softgpu::exec {

void coroutine_main(Coroutine *self)
{
    self->sanitized_.arrived();
    for (;;) self->body_(self->argument_);
}

namespace {

struct Pool {
    std::mutex mutex;
    Coroutine *idle[16] = {};  // by power of two above kMinStack
    size_t bytes = 0;
};

// Never destroyed: programs call the driver after its static destructors ran.
Pool &pool()
{
    static Pool *p = new Pool;
    return *p;
}

std::atomic<size_t> guarded{0};

size_t stack_class(size_t bytes)
{
    if (bytes <= kMinStack) return 0;
    return static_cast<size_t>(std::bit_width((bytes - 1) / kMinStack));
}

// What switch_to() finds on a stack that never ran.
struct FirstFrame {
    uint32_t mxcsr = 0x1F80;  // CUDA's: round to nearest, denormals kept, nothing traps
    uint32_t x87 = 0x037F;
    void *r15 = nullptr, *r14 = nullptr;
    void *r13, *r12;
    void *rbx = nullptr, *rbp = nullptr;
    void *resume;
};

}  // namespace

Coroutine *Coroutine::make(size_t stack_bytes)
{
    constexpr size_t kPage = 4096;
    void *map = mmap(nullptr, stack_bytes + kPage, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (map == MAP_FAILED) return nullptr;
    auto *c = new (std::nothrow) Coroutine;
    if (!c) {
        munmap(map, stack_bytes + kPage);
        return nullptr;
    }
    if (guarded.fetch_add(1) < kGuardedStacks && mprotect(map, kPage, PROT_NONE) == 0)
        c->guard_ = kPage;
    else
        --guarded;
    c->base_ = static_cast<uint8_t *>(map) + kPage;
    // Stacks of equal size lie equally aligned, and their tops would fight for the same few sets of
    // the L1 cache: each begins at another line.
    size_t colour = (reinterpret_cast<uintptr_t>(map) / (stack_bytes + kPage) * 5 % 32) * 64;
    c->size_ = stack_bytes - colour;
    c->reset();
    return c;
}

void Coroutine::destroy(Coroutine *c)
{
    c->sanitized_.release();
    uint8_t *begin = c->base_ - 4096;
    size_t bytes = (c->size_ + 4095) / 4096 * 4096 + 4096;
    munmap(begin, bytes);
    if (c->guard_) --guarded;
    delete c;
}

void Coroutine::reset()
{
    sanitized_.reset(base_, size_);
    auto *frame = reinterpret_cast<FirstFrame *>(top() - ((sizeof(FirstFrame) + 15) / 16 * 16));
    *frame = FirstFrame{};
    frame->r12 = this;
    frame->r13 = reinterpret_cast<void *>(&coroutine_main);
    frame->resume = reinterpret_cast<void *>(&rgpu_softgpu_start);
    sp_ = frame;
}

Coroutine *Coroutine::take(size_t stack_bytes)
{
    size_t k = stack_class(stack_bytes);
    if (stack_bytes > kMaxStack || k >= std::size(pool().idle)) return nullptr;
    {
        std::lock_guard lock(pool().mutex);
        if (Coroutine *c = pool().idle[k]) {
            pool().idle[k] = c->next;
            pool().bytes -= kMinStack << k;
            c->next = nullptr;
            return c;
        }
    }
    return make(kMinStack << k);
}

void Coroutine::give(Coroutine *c)
{
    size_t k = stack_class(c->size_);
    {
        std::lock_guard lock(pool().mutex);
        if (pool().bytes + (kMinStack << k) <= kIdleStackBytes) {
            c->next = pool().idle[k];
            pool().idle[k] = c;
            pool().bytes += kMinStack << k;
            return;
        }
    }
    destroy(c);
}

void Coroutine::adopt_os_thread(Coroutine &c)
{
    void *base = nullptr;
    size_t size = 0;
    if (kAsan) {
        pthread_attr_t attributes;
        if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
            pthread_attr_getstack(&attributes, &base, &size);
            pthread_attr_destroy(&attributes);
        }
    }
    c.sanitized_.adopt_current(base, size);
}

void Coroutine::switch_to(Coroutine &from, Coroutine &to)
{
    from.sanitized_.about_to_leave_for(to.sanitized_);
    rgpu_softgpu_switch(&from.sp_, to.sp_);
    from.sanitized_.arrived();
}

}  // namespace rgpu::softgpu::exec
