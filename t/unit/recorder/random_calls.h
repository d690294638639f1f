// SPDX-License-Identifier: Apache-2.0
// Calls of the table's lines with random arguments.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <source_location>

#include "t/unit/recorder/support.h"

namespace rgpu::test {

// A test that goes on although this is not so would test nothing.
inline void must(bool holds, const char *what = "",
                 std::source_location at = std::source_location::current())
{
    if (holds) return;
    fprintf(stderr, "%s:%u: not so: %s\n", at.file_name(), at.line(), what);
    abort();
}

inline std::mt19937_64 dice(2024);
// No null pointers, all counts the same: every call of a line has answers of one shape.
inline bool steady = false;

template <class T> T random_value()
{
    T v;
    for (size_t i = 0; i < sizeof v; i++)
        reinterpret_cast<uint8_t *>(&v)[i] = static_cast<uint8_t>(dice());
    return v;
}

// A number between 1 and 8.
inline uint64_t few() { return 1 + dice() % 8; }

// Values that the worker takes: what they name is in the recorder's memory.
template <class V> void make_sound(V &) {}
inline void make_sound(CUDA_MEMSET_NODE_PARAMS &p)
{
    p.dst = recorder::kMemory + dice() % 4096;
    p.pitch = few(), p.elementSize = 4, p.width = few(), p.height = few();
}
inline void make_sound(CUstreamBatchMemOpParams &p)
{
    p.operation = dice() % 2 ? CU_STREAM_MEM_OP_WAIT_VALUE_32 : CU_STREAM_MEM_OP_WAIT_VALUE_64;
    p.waitValue.address = recorder::kMemory + dice() % 4096;
}
inline void make_sound(CUmemAllocationProp &p) { p.win32HandleMetaData = nullptr; }
inline void make_sound(CUmemPoolProps &p) { p.win32SecurityAttributes = nullptr; }

// A number that is looked up, of a parameter with this use.
inline uint64_t sound_number(worker::Addresses &known, calls::Use use)
{
    using calls::Token;
    using calls::Use;
    const uint64_t number = use == Use::spot ? dice() : recorder::kMemory + 64 * (dice() % 4096);
    if (use == Use::token || use == Use::token_end)
        for (Token of : {Token::memory, Token::texture, Token::surface, Token::condition})
            known.give(of, number);
    else if (use != Use::mem && use != Use::frees && use != Use::spot)
        known.reserve(number, 64);
    return number;
}

// One random argument: what the client passes, what the driver should get, and the memory behind
// it.
template <RoleKind Kind, class T> struct Argument {
    using V = interpose::detail::Pointee<T>;
    static constexpr bool handle_in = (Kind == RoleKind::in || Kind == RoleKind::ends) &&
                                      calls::kIsHandle<T>;
    static constexpr bool handle_out = Kind == RoleKind::out && calls::kIsHandle<V>;

    T client{}, driver{};
    std::vector<Bytes> memory;

    void make(Wire &wire, const calls::Role &role, bool is_count, bool may_be_none)
    {
        if constexpr (handle_in) {
            driver = reinterpret_cast<T>(uintptr_t{0xd00000000} + (dice() & 0xfffffff0));
            client = wire.handle(driver);
        } else if (Kind == RoleKind::in && role.use != calls::Use::value) {
            const uint64_t number = sound_number(wire.server().addresses, role.use);
            memcpy(&client, &number, std::min(sizeof client, sizeof number));
            driver = client;
        } else if constexpr (Kind == RoleKind::in || Kind == RoleKind::ends) {
            client = is_count ? random_count(may_be_none) : random_value<T>();
            driver = client;
        } else if constexpr (std::is_pointer_v<T>) {
            if (!handle_out && !steady && dice() % 5 == 0) return;  // null
            constexpr size_t kMost = 8;
            size_t bytes = 256;
            if constexpr (!std::is_void_v<V>) bytes = kMost * sizeof(V) + 64;
            Bytes &m = memory.emplace_back(bytes + 16);
            for (uint8_t &b : m) b = static_cast<uint8_t>(dice());
            if constexpr ((std::is_class_v<V> || std::is_union_v<V>)&&(Kind == RoleKind::ref ||
                                                                       Kind == RoleKind::in_n))
                for (size_t i = 0; i < kMost; i++)
                    make_sound(reinterpret_cast<std::remove_cv_t<V> *>(m.data())[i]);
            if constexpr (Kind == RoleKind::str) {
                const size_t n = dice() % 60;
                for (size_t i = 0; i < n; i++) m[i] = static_cast<uint8_t>('!' + dice() % 90);
                m[n] = 0;
            }
            client = driver = reinterpret_cast<T>(m.data());
        }
    }
    static T random_count(bool may_be_none)
    {
        if constexpr (std::is_integral_v<T>)
            return static_cast<T>(steady ? 7 : few() - may_be_none);
        return random_value<T>();
    }
    // The number of what the call has made may be used again.
    void forget()
    {
        if constexpr (handle_out)
            if (const auto id = interpose::Handles::get().id(*client))
                interpose::Handles::get().end(*id);
    }
    // What came back, in the recorder's words.
    void outputs(Wire &wire, Bytes &to, size_t count)
    {
        if constexpr (handle_out) {
            V driver_handle{};
            const auto id = interpose::Handles::get().id(*client);
            if (id) wire.server().objects.get(*id, driver_handle);
            recorder::add(to, driver_handle);
        } else if constexpr (Kind == RoleKind::out) {
            if (client) recorder::add(to, *client);
        } else if constexpr (Kind == RoleKind::out_n) {
            if (client) recorder::add(to, client, count * sizeof *client);
        } else if constexpr (Kind == RoleKind::text) {
            if (client && count) recorder::add(to, client, strlen(client) + 1);
        }
    }
};

// A call of line Id with random arguments.
template <CallId Id, class F> struct Random;
template <CallId Id, class... A> struct Random<Id, CUresult (*)(A...)> {
    static constexpr auto index = std::index_sequence_for<A...>();

    // The arguments of one call; `use(client's tuple, driver's tuple, arguments)`.
    template <class Use> static auto with(Wire &wire, Use &&use)
    {
        return [&]<size_t... I>(std::index_sequence<I...>)
        {
            [[maybe_unused]] constexpr auto roles = calls::roles<Id>();
            [[maybe_unused]] auto is_count = [&](size_t i) {
                const auto n = static_cast<int>(i);
                for (const auto &role : roles)
                    if (role.count == n || role.pitch == n || role.height == n) return true;
                return false;
            };
            [[maybe_unused]] auto may_be_none = [&](size_t i) {
                return std::none_of(roles.begin(), roles.end(), [&](const auto &role) {
                    return role.count == static_cast<int>(i) && role.use != calls::Use::value;
                });
            };
            std::tuple<Argument<roles[I].kind, A>...> arguments;
            (std::get<I>(arguments).make(wire, roles[I], is_count(I), may_be_none(I)), ...);
            return use(std::tuple<A...>(std::get<I>(arguments).client...),
                       std::tuple<A...>(std::get<I>(arguments).driver...), arguments);
        }
        (index);
    }

    static CUresult call(const std::tuple<A...> &client)
    {
        return std::apply([](A... a) { return interpose::remote<Id>(a...); }, client);
    }
};

template <CallId Id> using RandomOf = Random<Id, typename calls::Row<Id>::Function>;

// f.operator()<Id>() for every plain line.
template <class F> void for_plain_rows(F &&f)
{
    auto one = [&]<CallId Id>() {
        if constexpr (is_plain<Id>()) f.template operator()<Id>();
    };
#define ROW(symbol, ...) one.template operator()<CallId::symbol>();
#include "calls/table.def"
}

// A module with one kernel.
inline constexpr char kImage[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry recorded() { ret; }\n";

}  // namespace rgpu::test
