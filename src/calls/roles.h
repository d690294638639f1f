// The roles of a call's parameters, parsed from the table's text at compile time.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "calls/calls.h"

namespace rgpu::calls {

enum class RoleKind { in, ends, ref, out, inout, found, in_n, out_n, found_n, str, text, host, own };

struct Role {
    RoleKind kind = RoleKind::in;
    std::string_view name;
    int count = -1;  // index of the parameter that holds the number of elements
};

namespace detail {

struct NamedRole {
    const char *word;
    RoleKind kind;
};
inline constexpr NamedRole kRoleWords[] = {
    {"in", RoleKind::in},       {"ends", RoleKind::ends},   {"ref", RoleKind::ref},
    {"out", RoleKind::out},     {"in_n", RoleKind::in_n},   {"out_n", RoleKind::out_n},
    {"str", RoleKind::str},     {"text", RoleKind::text},   {"host", RoleKind::host},
    {"own", RoleKind::own},     {"inout", RoleKind::inout}, {"found", RoleKind::found},
    {"found_n", RoleKind::found_n},
};

constexpr std::string_view trimmed(std::string_view s)
{
    while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
    while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
    return s;
}

consteval RoleKind role_kind(std::string_view word)
{
    for (const NamedRole &r : kRoleWords)
        if (word == r.word) return r.kind;
    throw "calls/table: unknown role";
}

consteval size_t role_count(std::string_view text)
{
    if (text == "none()") return 0;
    size_t n = 0;
    for (char c : text) n += c == '(';
    return n;
}

template <size_t N> consteval std::array<Role, N> parse_roles(std::string_view text)
{
    std::array<Role, N> roles{};
    std::array<std::string_view, N> counts{};
    for (size_t i = 0; i < N; i++) {
        size_t open = text.find('('), close = text.find(')');
        if (open == text.npos || close == text.npos) throw "calls/table: role without ()";
        std::string_view inside = text.substr(open + 1, close - open - 1);
        size_t comma = inside.find(',');
        roles[i].kind = role_kind(trimmed(text.substr(0, open)));
        roles[i].name = trimmed(inside.substr(0, comma));
        if (comma != inside.npos) counts[i] = trimmed(inside.substr(comma + 1));
        text.remove_prefix(close + 1);
    }
    for (size_t i = 0; i < N; i++) {
        if (counts[i].empty()) continue;
        for (size_t j = 0; j < N; j++)
            if (roles[j].name == counts[i]) roles[i].count = static_cast<int>(j);
        if (roles[i].count < 0) throw "calls/table: a count names no parameter";
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
