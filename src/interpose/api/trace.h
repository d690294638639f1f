// SPDX-License-Identifier: Apache-2.0
// RGPU_TRACE=1: a line on standard error for each call, with its arguments by name, its result
// and its time; RGPU_STATS: what stats.h counts. Made from the table; no call has code of its own
// for it.
#pragma once

#include <chrono>
#include <cstdio>
#include <string>
#include <type_traits>

#include "calls/errors.h"
#include "calls/roles.h"
#include "interpose/base/stats.h"

namespace rgpu::interpose {

// Set once, from the environment, before the first call.
bool tracing();
// Whether calls are traced or counted.
bool observing();

// Writes one line.
void trace_line(std::string_view symbol, const std::string &arguments, CUresult result,
                double microseconds);

namespace detail {

template <class T> void print(std::string &out, calls::RoleKind kind, T v)
{
    char text[64] = "?";
    if constexpr (std::is_same_v<T, const char *>) {
        if (kind == calls::RoleKind::str && v) {
            out += '"' + std::string(v).substr(0, 200) + '"';
            return;
        }
        snprintf(text, sizeof text, "%p", static_cast<const void *>(v));
    } else if constexpr (std::is_pointer_v<T>) {
        snprintf(text, sizeof text, "%p", reinterpret_cast<const void *>(v));
        using V = std::remove_const_t<std::remove_pointer_t<T>>;
        if constexpr (std::is_integral_v<V> || std::is_enum_v<V> ||
                      (std::is_pointer_v<V> && !std::is_function_v<std::remove_pointer_t<V>>))
            if (kind == calls::RoleKind::out && v)  // what was written
                snprintf(text, sizeof text, "-> %#llx", (unsigned long long)*v);
    } else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
        snprintf(text, sizeof text, std::is_same_v<T, CUdeviceptr> ? "%#llx" : "%lld",
                 static_cast<long long>(v));
    }
    out += text;
}

}  // namespace detail

// Calls `function`, counts it and traces it.
template <calls::CallId Id, class F, class... A> CUresult observed(F function, A... args)
{
    auto start = std::chrono::steady_clock::now();
    CUresult result = function(args...);
    const auto took = std::chrono::steady_clock::now() - start;
    if (counting())
        count_call(Id, result, static_cast<uint64_t>(std::chrono::nanoseconds(took).count()));
    if (!tracing()) return result;
    std::chrono::duration<double, std::micro> time = took;
    std::string arguments;
    if constexpr (calls::Row<Id>::info.mode != calls::Mode::none && sizeof...(A) > 0) {
        constexpr auto roles = calls::roles<Id>();
        size_t i = 0;
        ((arguments += i ? ", " : "", arguments += roles[i].name, arguments += '=',
          detail::print(arguments, roles[i].kind, args), i++),
         ...);
    }
    trace_line(calls::Row<Id>::info.symbol, arguments, result, time.count());
    return result;
}

}  // namespace rgpu::interpose
