// SPDX-License-Identifier: Apache-2.0
#include "net/ucx/ucx_offer.h"

#include <fcntl.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "wire/frame.h"

namespace rgpu::net {

namespace {

using wire::FrameHeader;

Result<void> send_frame(int tcp, uint16_t type, uint16_t flags, uint32_t value,
                        const std::string &body, Deadline deadline)
{
    FrameHeader h;
    h.bytes = static_cast<uint32_t>(body.size());
    h.type = type;
    h.flags = flags;
    h.value = value;
    std::string frame(reinterpret_cast<const char *>(&h), sizeof h);
    frame += body;
    return send_all(tcp, frame.data(), frame.size(), deadline);
}

// For what is said, or taken, at once.
constexpr std::chrono::seconds kPatience{10};

}  // namespace

// --- the client

Result<UcxOffer> UcxOffer::send(int tcp, Deadline deadline)
{
    auto transport = UcxTransport::open();
    if (!transport) return std::move(transport).error();
    wire::UcxOffer offer;
    while (!offer.word)
        if (getrandom(&offer.word, sizeof offer.word, 0) != sizeof offer.word)
            return error(ErrorKind::internal, "no random numbers");
    const std::string body = std::string(reinterpret_cast<const char *>(&offer), sizeof offer) +
                             (*transport)->address();
    if (auto r = send_frame(tcp, wire::kUcxOfferCall, wire::kWantsReply, 0, body, deadline); !r)
        return std::move(r).error();
    return UcxOffer(std::move(*transport), offer);
}

Result<void> UcxOffer::meet(int tcp, const std::string &address, Deadline deadline)
{
    if (auto r = transport_->connect(address, offer_.word); !r) return r;
    if (transport_->greet(tcp, deadline)) return {};
    return error(ErrorKind::unsupported, "the two sides found each other's UCX, and nothing comes "
                                         "through: name the network that both are in with "
                                         "RGPU_UCX_NET_DEVICES");
}

Result<std::unique_ptr<Transport>> UcxOffer::settle(Fd &tcp, Deadline deadline,
                                                    std::chrono::milliseconds patience)
{
    FrameHeader answer;
    if (auto r = receive_all(tcp.get(), &answer, sizeof answer, deadline); !r)
        return std::move(r).error();
    if (answer.type != static_cast<uint16_t>(wire::ServerFrame::reply) || answer.sequence ||
        answer.bytes > UcxTransport::kAddressBytes)
        return error(ErrorKind::invalid, "unexpected answer to an offer of UCX");
    std::string text(answer.bytes, '\0');
    if (auto r = receive_all(tcp.get(), text.data(), text.size(), deadline); !r)
        return std::move(r).error();
    if (answer.value) return error(ErrorKind::unsupported, "on the server: %s", text.c_str());
    const auto met = meet(tcp.get(), text, Clock::now() + patience);
    if (auto r = send_frame(tcp.get(), wire::kUcxSettleCall, 0, met.has_value(), "",
                            Clock::now() + kPatience);
        !r)
        return std::move(r).error();
    if (!met) return std::move(met).error();
    transport_->keep(std::move(tcp));
    return std::unique_ptr<Transport>(std::move(transport_));
}

// --- the worker

Result<std::unique_ptr<Transport>> take_ucx_offer(int tcp, std::unique_ptr<UcxTransport> transport,
                                                  const wire::UcxOffer &offer,
                                                  const std::string &their_address,
                                                  const UcxReply &reply)
{
    if (auto r = transport->connect(their_address, offer.word); !r) {
        reply(r.error().text, "");
        return std::unique_ptr<Transport>();
    }
    reply("", transport->address());
    transport->answer(tcp);
    FrameHeader h;
    if (auto r = receive_all(tcp, &h, sizeof h, Clock::now() + kPatience); !r)
        return std::move(r).error();
    if (h.type != wire::kUcxSettleCall || h.bytes)
        return error(ErrorKind::invalid, "no word about the offer of UCX");
    if (!h.value) return std::unique_ptr<Transport>();
    Fd kept(fcntl(tcp, F_DUPFD_CLOEXEC, 0));
    if (!kept) return error(ErrorKind::exhausted, "no descriptor: %s", strerror(errno));
    transport->keep(std::move(kept));
    return std::unique_ptr<Transport>(std::move(transport));
}

}  // namespace rgpu::net
