// SPDX-License-Identifier: Apache-2.0
// The calls whose client part is written by hand: own::cuX for every line of the table with code
// client or both. Definitions are in this folder's files, one file a chapter.
#pragma once

#include "calls/calls.h"

namespace rgpu::interpose::own {

// A function type without its pointer, to declare a function of the same prototype.
template <class T> struct Prototype;
template <class F> struct Prototype<F *> {
    using type = F;
};

#define ROW(symbol, ...) Prototype<calls::Row<calls::CallId::symbol>::Function>::type symbol;
#include "calls/table.def"

}  // namespace rgpu::interpose::own

namespace rgpu::interpose {

// Own<I>::function: the hand-written function of line I.
template <calls::CallId> struct Own;
#define ROW(symbol, ...) \
    template <> struct Own<calls::CallId::symbol> { \
        static constexpr auto function = &own::symbol; \
    };
#include "calls/table.def"

}  // namespace rgpu::interpose
