// SPDX-License-Identifier: Apache-2.0
// How the recording driver notes a call, and how a test notes the same call: parameter by
// parameter, by role.
//
// in, ends: the value's bytes. ref, inout: present byte, value (of structs with pointers all they
// lead to: deep.h). in_n: present byte, count (u64), values. str: present byte, the string with its
// NUL. out, out_n, text: present byte (out_n, text: count). host, own: present byte.
#pragma once

#include <cstdint>
#include <cstring>
#include <random>
#include <tuple>
#include <type_traits>
#include <vector>

#include "calls/handles.h"
#include "calls/roles.h"
#include "t/recorder/deep.h"

namespace rgpu::recorder {

// The recorder's device memory: copies to and from the host elsewhere are refused.
inline constexpr CUdeviceptr kMemory = 0x500000000;
inline constexpr size_t kMemoryBytes = 16 << 20;

// What the recorder remembers of the last call of one function.
struct Note {
    uint64_t calls = 0;
    Bytes in;   // the arguments
    Bytes out;  // what was written to the outputs, in order
};

template <class T> size_t as_count(T v)
{
    if constexpr (std::is_integral_v<T>) return v > 0 ? static_cast<size_t>(v) : 0;
    return 0;
}

template <calls::RoleKind Kind, class T> void note_in(Bytes &to, T arg, size_t count)
{
    using calls::RoleKind;
    if constexpr (Kind == RoleKind::in || Kind == RoleKind::ends) {
        add(to, arg);
    } else {
        add(to, uint8_t{arg != nullptr});
        if constexpr (Kind == RoleKind::ref || Kind == RoleKind::inout) {
            if constexpr (Deep<std::remove_cvref_t<decltype(*arg)>>) {
                if (arg) deep(to, *arg);
            } else {
                if (arg) add(to, *arg);
            }
        } else if constexpr (Kind == RoleKind::in_n) {
            add(to, uint64_t{arg ? count : 0});
            if (arg) add(to, arg, count * sizeof *arg);
        } else if constexpr (Kind == RoleKind::str) {
            if (arg) add(to, arg, strlen(arg) + 1);
        } else if constexpr (Kind == RoleKind::out_n || Kind == RoleKind::text) {
            add(to, uint64_t{arg ? count : 0});
        }
    }
}

// The count of parameter I: what the parameter that its role names holds.
template <calls::CallId Id, size_t I, class Args> size_t count_of(const Args &args)
{
    constexpr int n = calls::roles<Id>()[I].count;
    if constexpr (n < 0)
        return 0;
    else
        return as_count(std::get<static_cast<size_t>(n)>(args));
}

template <calls::CallId Id, class... A> Bytes note_arguments(const std::tuple<A...> &args)
{
    Bytes note;
    [&]<size_t... I>(std::index_sequence<I...>)
    {
        [[maybe_unused]] constexpr auto roles = calls::roles<Id>();
        (note_in<roles[I].kind>(note, std::get<I>(args), count_of<Id, I>(args)), ...);
    }
    (std::index_sequence_for<A...>());
    return note;
}

}  // namespace rgpu::recorder
