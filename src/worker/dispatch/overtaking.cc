// SPDX-License-Identifier: Apache-2.0
// The rules of calls for which their line's word is not enough, and what follows from a rule.
#include "worker/dispatch/overtaking.h"

#include "wire/bodies.h"
#include "worker/driver/driver.h"
#include "worker/session/stream_order.h"

namespace rgpu::worker {

// Where a call belongs while copies are open. `behind`: it was seen to. `unknown`: the copies have
// to be closed first.
enum class Order { apart, behind, unknown };

// rules::cuX for every line that says overtakes_by_rule. They read the parameters ahead of the
// handler, from a copy of the body.
namespace rules {
#define ROW(symbol, ...) Order symbol(Session &, const Call &);
#include "calls/table.def"
}  // namespace rules

namespace {

Order apart_if(bool yes) { return yes ? Order::apart : Order::unknown; }

bool stream_is_apart(Session &s, const Call &call, HandleId id)
{
    CUstream stream = nullptr;
    return !s.objects.get(id, stream) && is_apart(s, stream_key(call, id), stream);
}

// Behind the stream's copy, if it has one. False: it is not there.
bool record_behind(Session &s, const Call &call, HandleId event_id, HandleId stream_id)
{
    CUevent event = nullptr;
    CUstream stream = nullptr;
    if (s.objects.get(event_id, event) || !event || s.objects.get(stream_id, stream)) return false;
    return s.copies.behind(stream_key(call, stream_id), event_id, [&s, call, event, stream] {
        s.finish(call, DRIVER(cuEventRecord)(event, stream));
    });
}

}  // namespace

Order rules::cuMemcpyDtoHAsync_v2(Session &s, const Call &call)
{
    wire::Reader r = call.body;
    const auto t = wire::CopyTarget::read(r);
    const bool opens = !call.caller_waits() && t.bytes >= Copies::kLarge;
    const auto same = [key = stream_key(call, t.stream)](Copies::Key stream, const Copies::Copy &) {
        return stream == key;
    };
    return apart_if((opens && !s.copies.which_open(same).empty()) ||
                    stream_is_apart(s, call, t.stream));
}

// An attribute may name an event.
Order rules::cuLaunchKernel(Session &s, const Call &call)
{
    wire::Reader r = call.body;
    const auto head = r.value<wire::LaunchHead>();
    return apart_if(!head.attributes && stream_is_apart(s, call, head.stream));
}

// The word that a host function is over, which a stream with an open copy may wait for.
Order rules::cuLaunchHostFunc(Session &, const Call &call)
{
    wire::Reader r = call.body;
    return apart_if(wire::HostFunction::read(r).step == wire::HostFunctionStep::done);
}

Order rules::cuStreamQuery(Session &s, const Call &call)
{
    wire::Reader r = call.body;
    const auto stream = r.value<HandleId>();
    if (stream_is_apart(s, call, stream)) return Order::apart;
    CUstream known = nullptr;
    if (!r.at_end() || s.objects.get(stream, known)) return Order::unknown;
    s.finish(call, CUDA_ERROR_NOT_READY);
    return Order::behind;
}

Order rules::cuEventQuery(Session &s, const Call &call)
{
    wire::Reader r = call.body;
    const auto event = r.value<HandleId>();
    if (!r.at_end() || !s.copies.behind_what(event)) return Order::apart;
    s.finish(call, CUDA_ERROR_NOT_READY);
    return Order::behind;
}

Order rules::cuEventRecord(Session &s, const Call &call)
{
    wire::Reader r = call.body;
    const auto event = r.value<HandleId>(), stream = r.value<HandleId>();
    if (r.at_end() && record_behind(s, call, event, stream)) return Order::behind;
    return apart_if(!s.copies.behind_what(event) && stream_is_apart(s, call, stream));
}

Order rules::cuStreamWaitEvent(Session &s, const Call &call)
{
    wire::Reader r = call.body;
    const auto stream = r.value<HandleId>(), event = r.value<HandleId>();
    return apart_if(!s.copies.behind_what(event) && stream_is_apart(s, call, stream));
}

namespace {

using Rule = Order (*)(Session &, const Call &);

// Names a rule only where there is one.
template <CallId> struct RuleOf;
#define ROW(symbol, ...) \
    template <> struct RuleOf<CallId::symbol> { \
        static constexpr Rule get() \
        { \
            constexpr calls::CallInfo info = calls::Row<CallId::symbol>::info; \
            if constexpr (calls::is_sent(info) && \
                          info.facts.overtakes == calls::Overtakes::by_rule) \
                return rules::symbol; \
            return nullptr; \
        } \
    };
#include "calls/table.def"

constinit const Rule kRules[calls::kCallCount] = {
#define ROW(symbol, ...) RuleOf<CallId::symbol>::get(),
#include "calls/table.def"
};

Order order_of(Session &s, const Call &call)
{
    switch (calls::info(call.id).facts.overtakes) {
    case calls::Overtakes::never: break;
    case calls::Overtakes::always: return Order::apart;
    case calls::Overtakes::by_rule: return kRules[static_cast<size_t>(call.id)](s, call);
    }
    return Order::unknown;
}

}  // namespace

bool stays_behind(Session &s, Call &call)
{
    const Order order = order_of(s, call);
    if (order == Order::unknown) close_copies(s);
    return order == Order::behind;
}

}  // namespace rgpu::worker
