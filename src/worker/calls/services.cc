// SPDX-License-Identifier: Apache-2.0
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
#define ROW(symbol, ...) \
    template <> struct Hand<CallId::symbol> { \
        static constexpr Handler get() \
        { \
            if constexpr (kByServer<CallId::symbol>) return own::symbol; \
            return nullptr; \
        } \
    };
#include "calls/table.def"

// How many bytes the handler of such bodies may read.
constexpr uint32_t most_bytes(calls::Body body)
{
    switch (body) {
    case calls::Body::whole: break;
    case calls::Body::copy: return wire::kMaxCopyBytes;
    case calls::Body::image: return wire::kMaxImageBytes;
    }
    return wire::kMaxCallBytes;
}

template <CallId Id> constexpr Service entry()
{
    constexpr calls::Body body = calls::Row<Id>::info.facts.body;
    Service s = service<Id>(Hand<Id>::get());
    s.max_bytes = most_bytes(body);
    s.streams = body != calls::Body::whole;
    return s;
}

}  // namespace

constinit const Service kServices[calls::kCallCount] = {
#define ROW(symbol, ...) entry<CallId::symbol>(),
#include "calls/table.def"
};

}  // namespace rgpu::worker
