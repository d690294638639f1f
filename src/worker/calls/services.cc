// Which handler serves which line of the table.
#include "worker/calls/services.h"

#include "worker/calls/own.h"
#include "worker/calls/serve.h"

namespace rgpu::worker {

namespace {

// What no client sends is served to none.
template <CallId Id> constexpr Service service(Handler hand_written)
{
    constexpr calls::CallInfo info = calls::Row<Id>::info;
    if constexpr (!calls::is_sent(info))
        return {};
    else if constexpr (calls::by_server(info.code))
        return {hand_written};
    else
        return {serve<Id>};
}

// Names a hand-written handler only where there is one.
template <CallId Id> inline constexpr bool kByServer =
    calls::by_server(calls::Row<Id>::info.code) && calls::is_sent(calls::Row<Id>::info);

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
    if constexpr (Id == CallId::cuModuleLoadDataEx || Id == CallId::cuLibraryLoadData ||
                  Id == CallId::cuLinkAddData_v2)
        return streaming(s, wire::kMaxImageBytes);
    return s;
}

}  // namespace

constinit const Service kServices[calls::kCallCount] = {
#define ROW(symbol, since, mode, code, text) entry<CallId::symbol>(),
#include "calls/table.def"
};

}  // namespace rgpu::worker
