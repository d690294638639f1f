// SPDX-License-Identifier: Apache-2.0
// Which function carries out a line of the table in the client.
#pragma once

#include "calls/versions.h"
#include "interpose/api/trace.h"
#include "interpose/base/guard.h"
#include "interpose/span/route.h"
#include "interpose/state/capture.h"
#include "interpose/stub/by_hand.h"
#include "interpose/stub/stub.h"

namespace rgpu::interpose {

// Says once for each call that it is not carried out.
CUresult unsupported(CallId id);

namespace detail {

// The line of "cuX" for that of "cuX_ptsz".
consteval CallId plain_row(CallId id)
{
    std::string_view want = calls::info(id).symbol;
    want.remove_suffix(calls::kPerThreadSuffix);
    for (size_t i = static_cast<size_t>(id); i-- > 0;)
        if (calls::kCalls[i].symbol == want) return static_cast<CallId>(i);
    throw "calls/table: a per-thread line without its plain one";
}

template <class T> T per_thread_stream(T arg)
{
    if constexpr (std::is_same_v<T, CUstream>)
        return arg ? arg : CU_STREAM_PER_THREAD;
    else
        return arg;
}

template <CallId Id, class F> struct Entry;
template <CallId Id, class... A> struct Entry<Id, CUresult (*)(A...)> {
    static constexpr calls::CallInfo info = calls::Row<Id>::info;
    static constexpr bool takes_stream = (std::is_same_v<A, CUstream> || ...);

    // What the program calls: by its symbol, or by a pointer that it was given.
    static CUresult call(A... args)
    {
        return guard(info.symbol.data(), [&] { return turned(args...); });
    }
    static CUresult turned(A... args)
    {
        if (spanning()) {
            Route route;
            if constexpr (info.mode != Mode::none) find_route<Id>(route, args...);
            return observing() ? observed<Id>(carry_out, args...) : carry_out(args...);
        }
        return observing() ? observed<Id>(carry_out, args...) : carry_out(args...);
    }
    static CUresult carry_out(A... args)
    {
        if constexpr (info.facts.unsafe_in_capture)
            if (any_capture())
                if (CUresult r = may_call_unsafe()) return r;
        if constexpr (info.mode == Mode::none)
            return unsupported(Id);
        else if constexpr (calls::is_per_thread(info.symbol) && takes_stream)
            return Entry<plain_row(Id), CUresult (*)(A...)>::carry_out(per_thread_stream(args)...);
        else if constexpr (calls::by_client(info.code))
            return Own<Id>::function(args...);
        else
            return remote<Id>(args...);
    }
};

}  // namespace detail

template <CallId Id> [[gnu::no_sanitize("thread")]] typename calls::Row<Id>::Function entry()
{
    return &detail::Entry<Id, typename calls::Row<Id>::Function>::call;
}

// The same choice at run time, for cuGetProcAddress.
void *entry(CallId id);

}  // namespace rgpu::interpose
