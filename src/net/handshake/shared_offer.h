// SPDX-License-Identifier: Apache-2.0
// How client and worker on one host come to share memory, once they have a TCP connection and its
// handshake behind them.
//
// The client listens on an abstract Unix socket of a random name and says so, with two random
// words, in its first frame. A worker that sees the same end of the TCP connection (no proxy, no
// NAT between) connects there, in its own network namespace, and says the first word; the client
// answers with the second and hands over the memory and a socket. Names of such sockets are public
// on a host, the words are not: they went over the connection that the lease's secret
// authenticated. Anything else, and both go on over TCP.
#pragma once

#include <memory>

#include "net/transport/socket.h"
#include "net/transport/transport.h"
#include "wire/shared_offer.h"

namespace rgpu::net {

class SharedOffer {
public:
    // The client's side: sends the offer over the connection. Fails where this process gets no
    // socket or memory.
    static Result<SharedOffer> send(int tcp, Deadline);
    // Behind the snapshot: the transport that takes the connection's place (it keeps `tcp` open),
    // or null: the worker has declined, `tcp` is left as it is. Fails as sockets do.
    Result<std::unique_ptr<Transport>> settle(Fd &tcp, Deadline);

private:
    SharedOffer(Fd listener, Fd memory, const wire::SharedOffer &offer)
        : listener_(std::move(listener)), memory_(std::move(memory)), offer_(offer)
    {}
    std::unique_ptr<Transport> hand_over(int visitor, int tcp);

    Fd listener_, memory_;
    wire::SharedOffer offer_;
};

// The worker's side: meets the client. Fails where the offer cannot be taken; both go on over TCP.
Result<std::unique_ptr<Transport>> take_offer(int tcp, const wire::SharedOffer &);

}  // namespace rgpu::net
