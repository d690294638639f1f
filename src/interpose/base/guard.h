// SPDX-License-Identifier: Apache-2.0
// The boundary between a C program and this library. No exception crosses it: exported symbols, the
// functions of private tables and threads' bodies all go through here, and result.h says which
// CUresult an exception becomes.
#pragma once

#include <cxxabi.h>

#include <exception>

#include "calls/cuda_api.h"
#include "interpose/base/result.h"

namespace rgpu::interpose {

// What `body` returns; where it throws, what its exception means. The unwinding of a thread that
// the program cancels, or that calls pthread_exit in a host function, goes on: glibc ends the
// process where somebody holds it up.
template <class Body> inline CUresult guard(const char *where, Body &&body)
{
    try {
        return body();
    } catch (abi::__forced_unwind &) {
        throw;
    } catch (...) {
        return result_of_exception(where);
    }
}

// guarded<f>: a function of f's prototype, whose exceptions become the answer.
template <auto function> struct Guarded;
template <class... A, CUresult (*function)(A...)> struct Guarded<function> {
    static CUresult call(A... args)
    {
        return guard("a private table", [&] { return function(args...); });
    }
};
template <auto function> inline constexpr auto guarded = &Guarded<function>::call;

// Undoes what was begun, unless it was kept: for what must not stay behind when something in
// between throws. What cannot be undone, as that takes memory too, stays.
template <class Undo> class Unless {
public:
    explicit Unless(Undo undo) : undo_(undo) {}
    Unless(const Unless &) = delete;
    Unless &operator=(const Unless &) = delete;
    ~Unless()
    {
        if (kept_) return;
        try {
            undo_();
        } catch (const std::exception &) {
            // It is why we are here.
        }
    }
    void keep() { kept_ = true; }

private:
    Undo undo_;
    bool kept_ = false;
};

}  // namespace rgpu::interpose
