// SPDX-License-Identifier: Apache-2.0
#include "worker/dispatch/offers.h"

#include "net/handshake/shared_offer.h"
#include "net/ucx/ucx_offer.h"
#include "wire/lanes.h"
#include "worker/connection/lanes.h"
#include "worker/limits/confine.h"

namespace rgpu::worker {

// The client goes on through shared memory, if both can. It sends nothing more before it is
// answered.
Result<void> Offers::take_shared_memory(const wire::FrameHeader &h)
{
    wire::SharedOffer offer;
    if (h.bytes != sizeof offer || h.sequence || !(h.flags & wire::kWantsReply))
        return error(ErrorKind::invalid, "an offer that no client makes");
    if (auto r = session_.input.read(&offer, sizeof offer); !r) return r;
    if (!session_.input.empty()) return error(ErrorKind::invalid, "frames behind an offer");
    auto shared = net::take_offer(fd_, offer);
    session_.sender.reply(h.sequence, shared ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED);
    if (shared) session_.use(std::move(*shared));
    return {};
}

Result<void> Offers::take_ucx_offer(const wire::FrameHeader &h)
{
    wire::UcxOffer offer;
    if (h.bytes <= sizeof offer || h.bytes > sizeof offer + net::UcxTransport::kAddressBytes ||
        h.sequence || !(h.flags & wire::kWantsReply))
        return error(ErrorKind::invalid, "an offer of UCX that no client makes");
    std::string address(h.bytes - sizeof offer, '\0');
    if (auto r = session_.input.read(&offer, sizeof offer); !r) return r;
    if (auto r = session_.input.read(address.data(), address.size()); !r) return r;
    if (!session_.input.empty()) return error(ErrorKind::invalid, "frames behind an offer");
    const auto reply = [&](const std::string &why_not, const std::string &ours) {
        const std::string &body = ours.empty() ? why_not : ours;
        session_.sender.reply(h.sequence, ours.empty() ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS,
                              {body.begin(), body.end()});
    };
    if (!ucx_) {
        auto opened = net::UcxTransport::open();
        if (!opened) return reply(opened.error().text, ""), Result<void>();
        ucx_ = std::move(*opened);
    }
    auto taken = net::take_ucx_offer(fd_, std::move(ucx_), offer, address, reply);
    if (!taken) return std::move(taken).error();
    if (*taken) session_.use(std::move(*taken));
    return {};
}

// More connections carry what is large, from the next byte on. They are here: rgpud has given them,
// and the client has heard so.
Result<void> Offers::take_lanes(const wire::FrameHeader &h)
{
    wire::LanesCall told;
    if (h.bytes != sizeof told || !(h.flags & wire::kWantsReply) || session_.input.packed())
        return error(ErrorKind::invalid, "a word about lanes that no client says");
    if (auto r = session_.input.read(&told, sizeof told); !r) return r;
    net::LanedTransport *laned = session_.laned();
    if (!told.lanes) {
        std::vector<uint8_t> body;
        wire::Writer(body).value(laned ? number_ : 0);
        session_.sender.reply(h.sequence, CUDA_SUCCESS, body);
        return {};
    }
    auto lanes = told.lanes <= wire::kMostLanes && laned ? worker::take_lanes(told.lanes)
                                                         : std::vector<net::OwnSocket>();
    if (lanes.empty()) return error(ErrorKind::invalid, "%u lanes that there are not", told.lanes);
    laned->add(std::move(lanes));
    const auto rest = session_.input.rest();
    laned->begin_receiving(rest.data(), rest.size());
    session_.sender.begin(h.sequence, *laned, told.always);
    return {};
}

Result<void> Offers::take_first(const wire::FrameHeader &h, bool &taken)
{
    Result<void> r;
    taken = true;
    if (h.type == wire::kSharedOfferCall)
        r = take_shared_memory(h);
    else if (h.type == wire::kUcxOfferCall && takes_ucx_)
        r = take_ucx_offer(h);
    else
        taken = false;
    ucx_.reset();
    return r ? deny_sockets() : r;
}

}  // namespace rgpu::worker
