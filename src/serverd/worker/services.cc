// Which handler serves which line of the table.
#include "calls/versions.h"
#include "serverd/worker/own.h"
#include "serverd/worker/serve.h"

namespace rgpu::worker {

namespace {

using calls::Mode;

template <CallId Id> consteval bool from_roles()
{
    for (const auto &role : calls::roles<Id>())
        if (role.kind == RoleKind::host || role.kind == RoleKind::own) return false;
    return true;
}

consteval bool per_thread(std::string_view symbol) { return symbol.ends_with("_ptsz") || symbol.ends_with("_ptds"); }

template <CallId Id> constexpr Service service(Handler hand_written)
{
    constexpr calls::CallInfo info = calls::Row<Id>::info;
    if constexpr (info.mode == Mode::none || info.mode == Mode::local || per_thread(info.symbol))
        return {};
    else if constexpr (calls::by_server(info.code))
        return {hand_written};
    else if constexpr (from_roles<Id>())
        return {serve<Id>};
    else
        return {};
}

// Names a hand-written handler only where there is one.
template <CallId Id> inline constexpr bool kByServer =
    calls::by_server(calls::Row<Id>::info.code) && calls::Row<Id>::info.mode != Mode::none &&
    !per_thread(calls::Row<Id>::info.symbol);

template <CallId> struct Hand;
#define ROW(symbol, since, mode, code, text) \
    template <> struct Hand<CallId::symbol> { \
        static constexpr Handler get() \
        { \
            if constexpr (kByServer<CallId::symbol>) return own::symbol; \
            return nullptr; \
        } \
    };
#include "calls/table.def"

constexpr Service streaming(Service s, uint32_t max_bytes)
{
    s.max_bytes = max_bytes;
    s.streams = true;
    return s;
}

template <CallId Id> constexpr Service entry()
{
    Service s = service<Id>(Hand<Id>::get());
    if constexpr (Id == CallId::cuMemcpyHtoDAsync_v2) return streaming(s, wire::kMaxCopyBytes);
    if constexpr (Id == CallId::cuModuleLoadDataEx || Id == CallId::cuLibraryLoadData || Id == CallId::cuLinkAddData_v2)
        return streaming(s, wire::kMaxImageBytes);
    return s;
}

}  // namespace

constinit const Service kServices[calls::kCallCount] = {
#define ROW(symbol, since, mode, code, text) entry<CallId::symbol>(),
#include "calls/table.def"
};

}  // namespace rgpu::worker
