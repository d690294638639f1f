// SPDX-License-Identifier: Apache-2.0
// Every symbol of libcuda.so.1: an exported name for each line of the table.
//
// The dynamic loader asks each symbol's resolver which function it stands for (GNU ifunc); the
// prototype is cuda.h's own, so there is nothing to copy. entry() in entry.h is that choice. A
// resolver runs before the libraries that this one needs are ready, a sanitizer's too.
#include <array>

#include "interpose/api/entry.h"

namespace rgpu::interpose {

namespace {

template <size_t... I>
const std::array<void *, calls::kCallCount> &entries(std::index_sequence<I...>)
{
    static const std::array<void *, calls::kCallCount> table = {
        reinterpret_cast<void *>(entry<static_cast<CallId>(I)>())...};
    return table;
}

}  // namespace

void *entry(CallId id)
{
    return entries(std::make_index_sequence<calls::kCallCount>())[static_cast<size_t>(id)];
}

}  // namespace rgpu::interpose

using namespace rgpu::interpose;

#define ROW(symbol, ...) \
    extern "C" [[gnu::visibility("default")]] decltype(::symbol) symbol \
        __attribute__((ifunc("rgpu_resolve_" #symbol))); \
    extern "C" [[gnu::no_sanitize("thread")]] decltype(&::symbol) rgpu_resolve_##symbol() \
    { \
        return entry<rgpu::calls::CallId::symbol>(); \
    }
#include "calls/table.def"
