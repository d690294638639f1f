// SPDX-License-Identifier: Apache-2.0
// The roles of a call's parameters, parsed from the table's text at compile time.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "calls/calls.h"

namespace rgpu::calls {

enum class RoleKind {
    in,
    ends,
    ref,
    out,
    inout,
    found,
    in_n,
    out_n,
    found_n,
    str,
    text,
    host,
    own
};

// What a number is that the client sends or the driver writes, where it is not just a value. The
// server holds a client to it (worker/session/addresses.h).
enum class Use {
    value,
    // Nothing needs to be looked up for these two.
    device,      // a device's number
    flags,       // of an address's type, and none
    mem,         // an address: bytes are read or written there, which must be the session's
    gives,       // the address of memory that the session has from now on,
    frees,       // ... or has no longer
    reserves,    // the first of addresses that the session has reserved from now on,
    unreserves,  // ... or gives back
    space,       // the first of addresses that the session has reserved,
    maps,        // ... where it puts memory,
    unmaps,      // ... or takes it away
    spot,   // an address that the driver looks up, or keeps for kernels: nothing is read or written
            // there
    token,  // a number of an object that the session has made
    token_out,
    token_end
};

// The objects that the driver gives numbers to, each kind in a space of its own.
enum class Token { none, memory, texture, surface, condition };

// Whether the server has to find such a number among the session's.
constexpr bool is_looked_up(Use use)
{
    return use != Use::value && use != Use::device && use != Use::flags && use != Use::spot;
}

struct Role {
    RoleKind kind = RoleKind::in;
    std::string_view name;
    int count = -1;  // index of the parameter that holds the number of elements
    Use use = Use::value;
    int element = -1;  // index of the parameter that is as large as an element; else it is a byte
    int pitch = -1, height = -1;  // of rows of so many elements
    Token token = Token::none;
};

namespace detail {

struct NamedRole {
    const char *word;
    RoleKind kind;
    Use use = Use::value;
};
inline constexpr NamedRole kRoleWords[] = {
    {"in", RoleKind::in},
    {"device", RoleKind::in, Use::device},
    {"flags", RoleKind::in, Use::flags},
    {"ends", RoleKind::ends},
    {"ref", RoleKind::ref},
    {"out", RoleKind::out},
    {"in_n", RoleKind::in_n},
    {"out_n", RoleKind::out_n},
    {"str", RoleKind::str},
    {"text", RoleKind::text},
    {"host", RoleKind::host},
    {"own", RoleKind::own},
    {"inout", RoleKind::inout},
    {"found", RoleKind::found},
    {"found_n", RoleKind::found_n},
    {"mem", RoleKind::in, Use::mem},
    {"gives", RoleKind::out, Use::gives},
    {"frees", RoleKind::in, Use::frees},
    {"reserves", RoleKind::out, Use::reserves},
    {"unreserves", RoleKind::in, Use::unreserves},
    {"space", RoleKind::in, Use::space},
    {"maps", RoleKind::in, Use::maps},
    {"unmaps", RoleKind::in, Use::unmaps},
    {"spot", RoleKind::in, Use::spot},
    {"token", RoleKind::in, Use::token},
    {"token_out", RoleKind::out, Use::token_out},
    {"token_end", RoleKind::in, Use::token_end},
};

constexpr std::string_view trimmed(std::string_view s)
{
    while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
    while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
    return s;
}

consteval NamedRole named_role(std::string_view word)
{
    for (const NamedRole &r : kRoleWords)
        if (word == r.word) return r;
    throw "calls/table: unknown role";
}

constexpr bool is_token(Use use)
{
    return use == Use::token || use == Use::token_out || use == Use::token_end;
}

consteval Token named_token(std::string_view word)
{
    if (word == "memory") return Token::memory;
    if (word == "texture") return Token::texture;
    if (word == "surface") return Token::surface;
    if (word == "condition") return Token::condition;
    throw "calls/table: a token is of memory, a texture, a surface or a condition";
}

consteval size_t role_count(std::string_view text)
{
    if (text == "none()") return 0;
    size_t n = 0;
    for (char c : text) n += c == '(';
    return n;
}

// The next of the words that commas part.
consteval std::string_view take_word(std::string_view &text)
{
    const size_t comma = text.find(',');
    const std::string_view word = trimmed(text.substr(0, comma));
    text = comma == text.npos ? std::string_view() : text.substr(comma + 1);
    return word;
}

template <size_t N> consteval std::array<Role, N> parse_roles(std::string_view text)
{
    std::array<Role, N> roles{};
    std::array<std::string_view, N> rest{};
    for (size_t i = 0; i < N; i++) {
        size_t open = text.find('('), close = text.find(')');
        if (open == text.npos || close == text.npos) throw "calls/table: role without ()";
        std::string_view inside = text.substr(open + 1, close - open - 1);
        const NamedRole named = named_role(trimmed(text.substr(0, open)));
        roles[i].kind = named.kind;
        roles[i].use = named.use;
        roles[i].name = take_word(inside);
        if (is_token(named.use)) roles[i].token = named_token(take_word(inside));
        rest[i] = inside;
        text.remove_prefix(close + 1);
    }
    for (size_t i = 0; i < N; i++)
        for (int *which : {&roles[i].count, &roles[i].element, &roles[i].pitch, &roles[i].height}) {
            const std::string_view word = take_word(rest[i]);
            if (word.empty() || word == "1") continue;  // one element
            for (size_t j = 0; j < N; j++)
                if (roles[j].name == word) *which = static_cast<int>(j);
            if (*which < 0) throw "calls/table: a count names no parameter";
        }
    return roles;
}

template <class F> struct Arity;
template <class R, class... A> struct Arity<R (*)(A...)> {
    static constexpr size_t value = sizeof...(A);
};

}  // namespace detail

// Row<I>'s roles, one for each parameter of its prototype. Only for rows whose mode is not none.
template <CallId I> consteval auto roles()
{
    constexpr size_t n = detail::Arity<typename Row<I>::Function>::value;
    static_assert(detail::role_count(Row<I>::info.text) == n,
                  "calls/table: a line needs one role for each parameter of its prototype");
    return detail::parse_roles<n>(Row<I>::info.text);
}

}  // namespace rgpu::calls
