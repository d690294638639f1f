// SPDX-License-Identifier: Apache-2.0
// What carries a connection's bytes: TCP, or what client and worker agree on at its beginning.
// RGPU_TRANSPORT says which.
#pragma once

#include <memory>
#include <optional>

#include "net/handshake/data_connection.h"
#include "net/handshake/shared_offer.h"
#include "net/transport/transport.h"
#include "net/ucx/ucx_offer.h"

namespace rgpu::interpose {

class TransportChoice {
public:
    // As RGPU_TRANSPORT says: auto (shared memory on one host; else UCX, where this host has an
    // RDMA device and the server takes it; else TCP), tcp, shm or ucx. Fails with `invalid` on
    // another word. `rdma`: whether there is one, where the caller knows.
    static Result<TransportChoice> wanted(std::optional<bool> rdma = {});

    // Before anything else is sent: makes the offer, where there is one to make. Fails where what
    // is wanted cannot be had.
    Result<void> offer(const net::DataConnection &, net::Deadline);
    // Behind the snapshot: what carries the connection, and keeps its socket. Fails likewise, or as
    // sockets do.
    Result<std::unique_ptr<net::Transport>> settle(net::DataConnection &, net::Deadline);

private:
    enum class Wanted { any, tcp, shm, ucx };
    TransportChoice(Wanted wanted, std::optional<bool> rdma) : wanted_(wanted), rdma_(rdma) {}
    Result<void> offer_shared(const net::DataConnection &, net::Deadline);
    Result<void> offer_ucx(const net::DataConnection &, net::Deadline);

    Wanted wanted_;
    std::optional<bool> rdma_;
    std::optional<net::SharedOffer> shared_;
    std::optional<net::UcxOffer> ucx_;
};

}  // namespace rgpu::interpose
