// The dispatcher.
#include "worker/session/session.h"

#include <cstdio>
#include <utility>

#include "calls/errors.h"
#include "net/handshake/shared_offer.h"
#include "net/ucx/ucx_offer.h"
#include "wire/nvml.h"
#include "wire/packing.h"
#include "wire/status.h"
#include "worker/connection/lanes.h"
#include "worker/dispatch/overtaking.h"
#include "worker/driver/driver.h"
#include "worker/host/nvml.h"
#include "worker/host/status.h"
#include "worker/limits/confine.h"

namespace rgpu::worker {

Result<void> Session::run()
{
    input.on_pause([this] { return turns.waited_for(); },
                   [this] {
                       turns.mark();
                       channel_.reset();
                   });
    auto r = carry_out();
    channel_.reset();
    return r;
}

Result<void> Session::carry_out()
{
    for (;;) {
        auto h = input.header();
        if (!h) turns.look_at_memory();
        if (!h && h.error().text.empty()) return {};  // the client has ended
        if (!h) return std::move(h).error();
        if (auto r = step(*h); !r) return r;
    }
}

// The client goes on through shared memory, if both can. It sends nothing more before it is
// answered.
Result<void> Session::take_offer(const wire::FrameHeader &h)
{
    wire::SharedOffer offer;
    if (h.bytes != sizeof offer || h.sequence || !(h.flags & wire::kWantsReply))
        return error(ErrorKind::invalid, "an offer that no client makes");
    if (auto r = input.read(&offer, sizeof offer); !r) return r;
    if (!input.empty()) return error(ErrorKind::invalid, "frames behind an offer");
    auto shared = net::take_offer(fd_, offer);
    sender.reply(h.sequence, shared ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED);
    if (shared) use(std::move(*shared));
    return {};
}

Result<void> Session::take_ucx_offer(const wire::FrameHeader &h)
{
    wire::UcxOffer offer;
    if (h.bytes <= sizeof offer || h.bytes > sizeof offer + net::UcxTransport::kAddressBytes ||
        h.sequence || !(h.flags & wire::kWantsReply))
        return error(ErrorKind::invalid, "an offer of UCX that no client makes");
    std::string address(h.bytes - sizeof offer, '\0');
    if (auto r = input.read(&offer, sizeof offer); !r) return r;
    if (auto r = input.read(address.data(), address.size()); !r) return r;
    if (!input.empty()) return error(ErrorKind::invalid, "frames behind an offer");
    const auto reply = [&](const std::string &why_not, const std::string &ours) {
        const std::string &body = ours.empty() ? why_not : ours;
        sender.reply(h.sequence, ours.empty() ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS,
                     {body.begin(), body.end()});
    };
    if (!ucx_) {
        auto opened = net::UcxTransport::open();
        if (!opened) return reply(opened.error().text, ""), Result<void>();
        ucx_ = std::move(*opened);
    }
    auto taken = net::take_ucx_offer(fd_, std::move(ucx_), offer, address, reply);
    if (!taken) return std::move(taken).error();
    if (*taken) use(std::move(*taken));
    return {};
}

// More connections carry what is large, from the next byte on. They are here: rgpud has given them,
// and the client has heard so.
Result<void> Session::take_lanes_call(const wire::FrameHeader &h)
{
    wire::LanesCall told;
    if (h.bytes != sizeof told || !(h.flags & wire::kWantsReply) || input.packed())
        return error(ErrorKind::invalid, "a word about lanes that no client says");
    if (auto r = input.read(&told, sizeof told); !r) return r;
    if (!told.lanes) {
        std::vector<uint8_t> body;
        wire::Writer(body).value(before_ ? 0 : worker_number());
        sender.reply(h.sequence, CUDA_SUCCESS, body);
        return {};
    }
    auto lanes = told.lanes <= wire::kMostLanes && !before_ ? take_lanes(told.lanes)
                                                            : std::vector<net::OwnSocket>();
    if (lanes.empty()) return error(ErrorKind::invalid, "%u lanes that there are not", told.lanes);
    auto &laned = static_cast<net::LanedTransport &>(*transport_);
    laned.add(std::move(lanes));
    const auto rest = input.rest();
    laned.begin_receiving(rest.data(), rest.size());
    sender.begin(h.sequence, laned, told.always);
    return {};
}

// Everything goes this way from now on.
void Session::use(std::unique_ptr<net::Transport> transport)
{
    before_ = std::exchange(transport_, std::move(transport));
    input.use(*transport_);
    sender.use(*transport_);
    staging.use(*transport_);
    large_staging.use(*transport_);
}

// It alone may be an offer.
Result<void> Session::first_frame(const wire::FrameHeader &h, bool &taken)
{
    Result<void> r;
    taken = true;
    if (h.type == wire::kSharedOfferCall)
        r = take_offer(h);
    else if (h.type == wire::kUcxOfferCall && takes_ucx_)
        r = take_ucx_offer(h);
    else
        taken = false;
    ucx_.reset();
    return r ? deny_sockets() : r;
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

}  // namespace

// A program has so many threads that wait, and so many copies and host functions under way, at
// most.
constexpr size_t kMostBehind = 16384;

Result<void> Session::step(const wire::FrameHeader &h)
{
    if (waiters.behind() > kMostBehind)
        return error(ErrorKind::invalid, "more calls wait than any program makes");
    if (bool taken = false; std::exchange(first_, false))
        if (auto r = first_frame(h, taken); !r || taken) return r;
    if (h.type == wire::kStatusCall && !h.bytes) {
        sender.reply(h.sequence, CUDA_SUCCESS, device_status());
        return {};
    }
    if (h.type == wire::kNvmlCall) return take_nvml(*this, h);
    if (h.type == wire::kLanesCall) return take_lanes_call(h);
    if (h.type == wire::kPackingCall) return packing_.take(h);
    if (h.type >= calls::kCallCount || !kServices[h.type].handle)
        return error(ErrorKind::invalid, "call number %u (%s) is not one that a client sends",
                     h.type,
                     h.type < calls::kCallCount ? calls::kCalls[h.type].symbol.data() : "unknown");
    const Service &service = kServices[h.type];
    Call call{h, static_cast<CallId>(h.type)};
    if (h.bytes > service.max_bytes)
        return error(ErrorKind::invalid, "%s: %u bytes announced, %u allowed",
                     calls::info(call.id).symbol.data(), h.bytes, service.max_bytes);
    if (!service.streams) {
        auto body = input.body(h.bytes);
        if (!body) return std::move(body).error();
        call.body = wire::Reader(*body, h.bytes);
    }
    if (copies.any_open() && stays_behind(*this, call)) return {};
    if (CUresult r = enter(h.value, call.context_gone); r && !service.streams) {
        finish(call, r);
        return {};
    }
    auto served = service.handle(*this, call);
    if (!served) return std::move(served).error().in(calls::info(call.id).symbol);
    return {};
}

// Makes the client thread's current context the dispatcher's.
CUresult Session::enter(HandleId id, bool &gone)
{
    CUcontext context = nullptr, now = nullptr;
    context_ = nullptr;
    // A client gives contexts' numbers once only. Without a context goes what needs none.
    if (objects.get(id, context)) gone = true, context = nullptr;
    // Creating and destroying contexts changes what is current: look rather than remember.
    if (CUresult r = DRIVER(cuCtxGetCurrent)(&now)) return r;
    if (now != context)
        if (CUresult r = DRIVER(cuCtxSetCurrent)(context)) return r;
    context_ = context;
    return CUDA_SUCCESS;
}

void Session::finish(const Call &call, CUresult result, const std::vector<uint8_t> &body)
{
    result = call.told(result);
    if (call.wants_reply()) {
        // One that says that something is over lets the program go on as a wait does.
        if (call.id == CallId::cuStreamQuery || call.id == CallId::cuEventQuery ||
            call.id == CallId::cuEventElapsedTime || call.id == CallId::cuEventElapsedTime_v2)
            send_past();
        sender.reply(call.header.sequence, result, body);
    } else if (result) {
        CUresult none = CUDA_SUCCESS;
        posted_error_.compare_exchange_strong(none, result);
        const char *name = calls::error_name(result);
        fprintf(stderr, "posted %s failed: %s\n", calls::info(call.id).symbol.data(),
                name ? name : "unknown error");
    }
}

void Session::send_past()
{
    console_.drain(sender);
    copies.send_finished();
}

void Session::finish_wait(const Call &call, CUresult result)
{
    send_past();
    CUresult posted = posted_error_.exchange(CUDA_SUCCESS);
    sender.reply(call.header.sequence, result ? call.told(result) : posted);
}

}  // namespace rgpu::worker
