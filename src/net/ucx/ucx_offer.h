// SPDX-License-Identifier: Apache-2.0
// How client and worker come to use UCX, once they have a TCP connection and its handshake behind
// them.
//
// The client offers in its first frame, with the address of its UCX worker and a random word;
// rgpu-worker answers with its own address, or why not. Both make endpoints and greet each other
// there; then the client says over TCP whether all goes on through UCX. The TCP connection stays
// open: its end is the peer's. UCX authenticates nobody: the word, which went over the connection
// that the lease's secret proved, is in every message. Anything else, and both go on over TCP.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "net/transport/socket.h"
#include "net/ucx/ucx_transport.h"
#include "wire/ucx_offer.h"

namespace rgpu::net {

class UcxOffer {
public:
    // The client's side: sends the offer. Fails with `unsupported` where there is no UCX here, else
    // as sockets do.
    static Result<UcxOffer> send(int tcp, Deadline);
    // Behind the snapshot: the transport that takes the connection's place (it keeps `tcp` open).
    // Fails with `unsupported`, and the reason, where all goes on over TCP; else as sockets do.
    // Once the worker has answered it waits for the endpoints as long as `patience`.
    Result<std::unique_ptr<Transport>> settle(Fd &tcp, Deadline,
                                              std::chrono::milliseconds patience);

private:
    UcxOffer(std::unique_ptr<UcxTransport> transport, const wire::UcxOffer &offer)
        : transport_(std::move(transport)), offer_(offer)
    {}
    Result<void> meet(int tcp, const std::string &address, Deadline);

    std::unique_ptr<UcxTransport> transport_;
    wire::UcxOffer offer_;
};

// Why an offer is not taken (empty: it is), and the address to answer with.
using UcxReply = std::function<void(const std::string &why_not, const std::string &address)>;

// The worker's side, with the offer and the client's address: makes the endpoint, calls `reply`,
// and waits for the client's word. Null: all goes on over `tcp`. Fails as sockets do.
Result<std::unique_ptr<Transport>> take_ucx_offer(int tcp, std::unique_ptr<UcxTransport>,
                                                  const wire::UcxOffer &,
                                                  const std::string &their_address,
                                                  const UcxReply &reply);

}  // namespace rgpu::net
