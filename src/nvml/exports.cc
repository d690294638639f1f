// SPDX-License-Identifier: Apache-2.0
// The symbols of libnvidia-ml.so.1 that are carried out. Every call passes through Exported: no
// exception gets out to a C program.
//
// The dynamic loader asks each symbol's resolver which function it stands for (GNU ifunc), so that
// the prototype is nvml.h's own.
#include <cxxabi.h>

#include <new>
#include <stdexcept>

#include "nvml/answers.h"

namespace rgpu::nvml {

namespace {

// For a catch block only: what its exception means.
[[gnu::cold]] nvmlReturn_t result_of_exception() noexcept
{
    try {
        throw;
    } catch (const std::bad_alloc &) {
        return NVML_ERROR_MEMORY;
    } catch (const std::length_error &) {  // more than any memory holds
        return NVML_ERROR_MEMORY;
    } catch (...) {
        return NVML_ERROR_UNKNOWN;
    }
}

template <class Function, auto implementation> struct Exported;
template <class... A, auto implementation> struct Exported<nvmlReturn_t(A...), implementation> {
    static nvmlReturn_t call(A... a)
    {
        try {
            return implementation(a...);
        } catch (abi::__forced_unwind &) {  // a thread that the program cancels
            throw;
        } catch (...) {
            return result_of_exception();
        }
    }
};
// nvmlErrorString.
template <class... A, auto implementation> struct Exported<const char *(A...), implementation> {
    static const char *call(A... a) noexcept { return implementation(a...); }
};

}  // namespace

}  // namespace rgpu::nvml

#define ANSWER(name) \
    extern "C" [[gnu::no_sanitize("thread")]] decltype(&::name) rgpu_resolve_##name() \
    { \
        return &rgpu::nvml::Exported<decltype(::name), &rgpu::nvml::answers::name>::call; \
    } \
    extern "C" [[gnu::visibility("default")]] decltype(::name) name \
        __attribute__((ifunc("rgpu_resolve_" #name)));
#include "calls/nvml.def"
