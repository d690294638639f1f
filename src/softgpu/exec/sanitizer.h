// SPDX-License-Identifier: Apache-2.0
// What AddressSanitizer and ThreadSanitizer must be told when a stack is switched; nothing without
// them.
#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
extern "C" {
void __sanitizer_start_switch_fiber(void **fake_stack_save, const void *bottom, size_t size);
void __sanitizer_finish_switch_fiber(void *fake_stack_save, const void **bottom_old,
                                     size_t *size_old);
void __asan_unpoison_memory_region(void const volatile *address, size_t size);
}
#endif
#if defined(__SANITIZE_THREAD__)
extern "C" {
void *__tsan_get_current_fiber(void);
void *__tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void *fiber);
void __tsan_switch_to_fiber(void *fiber, unsigned flags);
}
#endif

namespace rgpu::softgpu::exec {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kAsan = true;
#else
constexpr bool kAsan = false;
#endif

// One stack as the sanitizers see it: a coroutine has one, and calls, in this order, reset() or
// adopt_current() for a stack that is made or found, about_to_leave_for() in front of each switch,
// arrived() behind it, release() when the stack goes. One OS thread at a time.
struct SanitizedStack {
#if defined(__SANITIZE_ADDRESS__)
    const void *bottom = nullptr;
    size_t size = 0;
    void *fake = nullptr;
    void about_to_leave_for(SanitizedStack &to)
    {
        __sanitizer_start_switch_fiber(&fake, to.bottom, to.size);
    }
    void arrived() { __sanitizer_finish_switch_fiber(fake, nullptr, nullptr); }
    void reset(const void *b, size_t n)
    {
        bottom = b, size = n, fake = nullptr;
        __asan_unpoison_memory_region(b, n);
    }
    void unpoison(const void *b, size_t n) { __asan_unpoison_memory_region(b, n); }
    void adopt_current(const void *b, size_t n) { bottom = b, size = n; }
    void release() {}
#elif defined(__SANITIZE_THREAD__)
    void *fiber = nullptr;
    bool owned = false;
    void about_to_leave_for(SanitizedStack &to) { __tsan_switch_to_fiber(to.fiber, 0); }
    void arrived() {}
    void reset(const void *, size_t)
    {
        release();
        fiber = __tsan_create_fiber(0);
        owned = true;
    }
    void unpoison(const void *, size_t) {}
    void adopt_current(const void *, size_t) { fiber = __tsan_get_current_fiber(); }
    void release()
    {
        if (owned) __tsan_destroy_fiber(fiber);
        owned = false;
    }
#else
    void about_to_leave_for(SanitizedStack &) {}
    void arrived() {}
    void reset(const void *, size_t) {}
    void unpoison(const void *, size_t) {}
    void adopt_current(const void *, size_t) {}
    void release() {}
#endif
};

}  // namespace rgpu::softgpu::exec
