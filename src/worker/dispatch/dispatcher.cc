// SPDX-License-Identifier: Apache-2.0
// The loop over frames, and what is refused before a handler sees it.
#include "worker/dispatch/dispatcher.h"

#include <utility>

#include "wire/bands.h"
#include "wire/lanes.h"
#include "wire/nccl.h"
#include "wire/nvml.h"
#include "wire/packing.h"
#include "wire/status.h"
#include "worker/bands/bands.h"
#include "worker/calls/services.h"
#include "worker/dispatch/overtaking.h"
#include "worker/dispatch/placed_memory.h"
#include "worker/dispatch/relief.h"
#include "worker/host/nvml.h"
#include "worker/host/status.h"
#include "worker/limits/metering.h"

namespace rgpu::worker {

Result<void> Dispatcher::run()
{
    session.input.on_pause([this] { return session.turns.waited_for(); },
                           [this] {
                               session.turns.mark();
                               channel_.reset();
                           });
    auto r = carry_out();
    channel_.reset();
    return r;
}

// Milliseconds between looks at calls that wait for host functions.
constexpr int kLook = 5;

Result<void> Dispatcher::carry_out()
{
    for (;;) {
        while (session.carry_out_late() && !session.input.comes_within(kLook)) continue;
        auto h = session.input.header();
        if (!h) session.turns.look_at_memory();
        if (!h && h.error().text.empty()) return {};  // the client has ended
        if (!h) return std::move(h).error();
        if (auto r = step(*h); !r) return r;
    }
}

namespace {

Result<void> take_nvml(Session &session, const wire::FrameHeader &h)
{
    if (h.bytes > wire::kMaxCallBytes)
        return error(ErrorKind::invalid, "a question to NVML of %u bytes", h.bytes);
    auto body = session.input.body(h.bytes);
    if (!body) return std::move(body).error();
    session.sender.reply(h.sequence, CUDA_SUCCESS, answer_nvml(wire::Reader(*body, h.bytes)));
    return {};
}

// Which band the program's memory on this server is to lie in.
Result<void> take_band(Session &session, const wire::FrameHeader &h)
{
    uint32_t index = 0;
    if (h.bytes != sizeof index) return error(ErrorKind::invalid, "a band of %u bytes", h.bytes);
    auto body = session.input.body(h.bytes);
    if (!body) return std::move(body).error();
    index = wire::Reader(*body, h.bytes).value<uint32_t>();
    if (!bands() || !bands()->choose(index))
        return error(ErrorKind::invalid, "band %u, where memory lies elsewhere already", index);
    return {};
}

}  // namespace

Result<void> Dispatcher::step(const wire::FrameHeader &h)
{
    if (session.behind() > Session::kMostBehind)
        return error(ErrorKind::invalid, "more calls wait than any program makes");
    if (bool taken = false; std::exchange(first_, false))
        if (auto r = offers_.take_first(h, taken); !r || taken) return r;
    if (h.type == wire::kStatusCall && !h.bytes) {
        session.sender.reply(h.sequence, CUDA_SUCCESS, device_status());
        return {};
    }
    if (h.type == wire::kNvmlCall) return take_nvml(session, h);
    if (h.type == wire::kBandCall) return take_band(session, h);
    if (h.type == wire::kNcclCall) return nccl_.take(h);
    if (h.type == wire::kPlacedCall) return take_placed(session, h);
    if (h.type == wire::kLanesCall) return offers_.take_lanes(h);
    if (h.type == wire::kPackingCall) return packing_.take(h);
    if (h.type >= calls::kCallCount || !kServices[h.type].handle)
        return error(ErrorKind::invalid, "call number %u (%s) is not one that a client sends",
                     h.type,
                     h.type < calls::kCallCount ? calls::kCalls[h.type].symbol.data() : "unknown");
    if (h.flags & wire::kWantsReply) Metering::here().asked();
    const Service &service = kServices[h.type];
    Call call{h, static_cast<calls::CallId>(h.type)};
    if (h.bytes > service.max_bytes)
        return error(ErrorKind::invalid, "%s: %u bytes announced, %u allowed",
                     calls::info(call.id).symbol.data(), h.bytes, service.max_bytes);
    if (!service.streams) {
        auto body = session.input.body(h.bytes);
        if (!body) return std::move(body).error();
        call.body = wire::Reader(*body, h.bytes);
    }
    if (session.copies.any_open() && stays_behind(session, call)) return {};
    if (CUresult r = session.enter(h.value, call.context_gone); r && !service.streams) {
        session.finish(call, r);
        return {};
    }
    if (session.callbacks.any() && !std::exchange(relief_, true)) start_relief(session);
    // A handler that reads its body itself leaves the stream when it has it. Calls that relieve
    // never overtake each other.
    Input::Away away(session.input,
                     relief_ && !service.streams && !calls::info(call.id).facts.relieves);
    auto served = service.handle(session, call);
    if (!served) return std::move(served).error().in(calls::info(call.id).symbol);
    return {};
}

}  // namespace rgpu::worker
