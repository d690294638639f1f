// SPDX-License-Identifier: Apache-2.0
#include "interpose/link/transport_choice.h"

#include <cstdlib>
#include <string_view>

#include "net/transport/laned_transport.h"
#include "net/ucx/rdma.h"

namespace rgpu::interpose {

namespace {

// For UCX's endpoints, which need milliseconds: with nothing else wanted a loaded host may have its
// time.
constexpr std::chrono::seconds kPatience{30}, kShortPatience{5};

// auto goes on over TCP without a word, unless the connection itself is what failed.
bool connection_failed(const Error &e)
{
    return e.kind == ErrorKind::disconnected || e.kind == ErrorKind::unavailable ||
           e.kind == ErrorKind::invalid;
}

Error not_so(const char *wanted, const std::string &why)
{
    return error(ErrorKind::unavailable, "RGPU_TRANSPORT is %s, and %s", wanted, why.c_str());
}

}  // namespace

Result<TransportChoice> TransportChoice::wanted(std::optional<bool> rdma)
{
    const char *v = getenv("RGPU_TRANSPORT");
    const std::string_view wanted = v ? v : "";
    if (wanted.empty() || wanted == "auto") return TransportChoice(Wanted::any, rdma);
    if (wanted == "tcp") return TransportChoice(Wanted::tcp, rdma);
    if (wanted == "shm") return TransportChoice(Wanted::shm, rdma);
    if (wanted == "ucx") return TransportChoice(Wanted::ucx, rdma);
    return error(ErrorKind::invalid, "RGPU_TRANSPORT is \"%s\": auto, tcp, shm or ucx", v);
}

Result<void> TransportChoice::offer_shared(const net::DataConnection &connection,
                                           net::Deadline deadline)
{
    auto sent = connection.takes_offers
                    ? net::SharedOffer::send(connection.fd.get(), deadline)
                    : Result<net::SharedOffer>(error(ErrorKind::unsupported,
                                                     "the server is on another host, or encrypts"));
    if (sent) return shared_ = std::move(*sent), Result<void>();
    if (wanted_ == Wanted::shm)
        return not_so("shm", "no memory can be shared: " + sent.error().text);
    return {};
}

Result<void> TransportChoice::offer_ucx(const net::DataConnection &connection,
                                        net::Deadline deadline)
{
    if (connection.tunnel && wanted_ == Wanted::ucx)
        return not_so("ucx",
                      "the server encrypts its data connections ([rgpud] encrypt), which UCX "
                      "cannot: use auto or tcp");
    if (!connection.takes_ucx) {
        if (wanted_ != Wanted::ucx) return {};
        return not_so("ucx", "the server takes no UCX: it needs transport = \"ucx\" below [rgpud] "
                             "in its rgpu.conf, or an RDMA device");
    }
    auto sent = net::UcxOffer::send(connection.fd.get(), deadline);
    if (sent) return ucx_ = std::move(*sent), Result<void>();
    if (wanted_ == Wanted::ucx) return not_so("ucx", sent.error().text);
    if (connection_failed(sent.error())) return std::move(sent).error();
    return {};
}

Result<void> TransportChoice::offer(const net::DataConnection &connection, net::Deadline deadline)
{
    switch (wanted_) {
    case Wanted::tcp: return {};
    case Wanted::shm: return offer_shared(connection, deadline);
    case Wanted::ucx: return offer_ucx(connection, deadline);
    case Wanted::any: break;
    }
    if (connection.takes_offers) return offer_shared(connection, deadline);
    return rdma_.value_or(net::has_rdma()) ? offer_ucx(connection, deadline) : Result<void>();
}

Result<std::unique_ptr<net::Transport>> TransportChoice::settle(net::DataConnection &connection,
                                                                net::Deadline deadline)
{
    if (shared_) {
        auto settled = shared_->settle(connection.fd, deadline);
        if (!settled || *settled) return settled;
        if (wanted_ == Wanted::shm)
            return not_so("shm", "no memory can be shared: the worker cannot come to it");
    }
    if (ucx_) {
        auto settled = ucx_->settle(connection.fd, deadline,
                                    wanted_ == Wanted::ucx ? kPatience : kShortPatience);
        if (settled || connection_failed(settled.error())) return settled;
        if (wanted_ == Wanted::ucx) return not_so("ucx", settled.error().text);
        ucx_.reset();
    }
    return std::unique_ptr<net::Transport>(std::make_unique<net::LanedTransport>(
        std::move(connection.fd), std::move(connection.tunnel)));
}

}  // namespace rgpu::interpose
