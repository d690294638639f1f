// SPDX-License-Identifier: Apache-2.0
// An operator new that fails where a test says so, for programs of one source.
#pragma once

#include <cstdlib>
#include <new>

// While it lives, the calling thread's n-th request for memory fails, and all behind it; 0: none
// does. The one that was made last counts.
class NewFails {
public:
    explicit NewFails(long n) : before_(left) { left = n; }
    ~NewFails() { left = before_; }
    NewFails(const NewFails &) = delete;
    NewFails &operator=(const NewFails &) = delete;

    static bool now()
    {
        if (left > 1) return left--, false;
        return left;
    }

private:
    static inline thread_local long left = 0;
    const long before_;
};

void *operator new(size_t bytes)
{
    void *const p = NewFails::now() ? nullptr : malloc(bytes);
    if (!p) throw std::bad_alloc();
    return p;
}
void operator delete(void *p) noexcept { free(p); }
void operator delete(void *p, size_t) noexcept { free(p); }
