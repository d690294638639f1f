// SPDX-License-Identifier: Apache-2.0
// Holds every line of the table to itself: a line whose columns contradict each other does not
// compile. The message names the line.
#include <type_traits>

#include "calls/roles.h"

namespace rgpu::calls {

namespace {

// Whether one of the roles is this word, which includes its "(".
constexpr bool says(std::string_view roles, std::string_view word)
{
    for (size_t at = roles.find(word); at != roles.npos; at = roles.find(word, at + 1))
        if (!at || roles[at - 1] == ' ') return true;
    return false;
}

constexpr const char *contradiction(const CallInfo &c)
{
    const Facts &f = c.facts;
    const bool of_server = f.work || f.tells_progress || f.relieves ||
                           f.overtakes != Overtakes::never || f.body != Body::whole;
    if (of_server && !travels(c.mode)) return "a fact of the server's, and a call that is not sent";
    if (f.tells_progress && c.mode != Mode::ask) return "tells_progress, and not asked";
    if (f.relieves && !by_server(c.code)) return "relieves, and no handler by hand";
    if (f.body != Body::whole && !by_server(c.code))
        return "a body that only a handler by hand can read, and there is none";
    if (f.work && f.overtakes == Overtakes::always) return "work is in the order of a stream";
    if (c.mode == Mode::none) return nullptr;
    if (says(c.text, "gives(") && f.memory != Memory::taken) return "gives() without takes_memory";
    for (const char *word : {"frees(", "maps(", "unmaps("})
        if (says(c.text, word) && f.memory != Memory::counted)
            return "changes what is counted, without counts_memory";
    return nullptr;
}

template <class> inline constexpr bool kHasStream = false;
template <class... A>
// NOLINTNEXTLINE(misc-redundant-expression): clang-tidy sees the fold's operator alone
inline constexpr bool kHasStream<CUresult (*)(A...)> = (std::is_same_v<A, CUstream> || ...);

// Whether each parameter that is said to be a device's number, or flags, is of such a type.
template <CallId Id> constexpr bool types_fit()
{
    if constexpr (Row<Id>::info.mode == Mode::none)
        return true;
    else
        return []<class... A>(CUresult (*)(A...)) {
            [[maybe_unused]] constexpr auto all = roles<Id>();
            [[maybe_unused]] size_t i = 0;
            [[maybe_unused]] const auto fits = []<class T>(Use use, std::type_identity<T>) {
                return (use != Use::device || std::is_same_v<T, CUdevice>)&&(
                    use != Use::flags || std::is_same_v<T, CUdeviceptr>);
            };
            return (fits(all[i++].use, std::type_identity<A>()) && ... && true);
        }(typename Row<Id>::Function(nullptr));
}

#define ROW(symbol, ...) \
    static_assert(!contradiction(info(CallId::symbol)), \
                  "calls/table: the line of " #symbol " contradicts itself (table_check.cc)"); \
    static_assert( \
        !info(CallId::symbol).facts.default_order || !kHasStream<Row<CallId::symbol>::Function>, \
        "calls/table: " #symbol " is in its stream's order, not in the default stream's"); \
    static_assert(types_fit<CallId::symbol>(), \
                  "calls/table: " #symbol " has a device() or flags() of another type");
#include "calls/table.def"

}  // namespace

}  // namespace rgpu::calls
