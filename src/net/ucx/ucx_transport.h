// SPDX-License-Identifier: Apache-2.0
// A connection through UCX: over InfiniBand and RoCE, and whatever else UCX can.
//
// The stream goes as active messages. Small parts are sent as they are (eager); a part of kLarge or
// more is announced, and fetched by the receiver into the memory that it is to lie in (rendezvous:
// RDMA, without a copy on either side, where the network can). UCX's own streams are eager only,
// and hold nobody back who sends faster than the other reads; its tags match what one ordered
// stream need not match. Every message has a number, so that nothing depends on the order in which
// UCX delivers, and a word that whoever else reaches this UCX worker cannot know.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "net/transport/socket.h"
#include "net/transport/transport.h"

namespace rgpu::net {

class UcxTransport : public Transport {
public:
    // UCX, opened, with an address for the peer. Fails with `unsupported`, saying why and what to
    // do.
    static Result<std::unique_ptr<UcxTransport>> open();

    virtual const std::string &address() const = 0;
    // Makes the endpoint, for messages with this word. Fails with `unsupported` where the two have
    // no network in common.
    virtual Result<void> connect(const std::string &their_address, uint64_t word) = 0;
    // Greets the peer, and waits until it has answered, the socket has something to read or has
    // ended, or the time is over. Whether it has answered.
    virtual bool greet(int tcp, Deadline) = 0;
    // The other side of that: answers the peer's greeting, until the socket has something to read
    // or has ended.
    virtual void answer(int tcp) = 0;
    // The connection by whose end the peer's is known. From now on it is a transport.
    virtual void keep(Fd tcp) = 0;

    static constexpr size_t kLarge = 64 << 10;
    static constexpr size_t kAddressBytes = 32 << 10;  // at most
};

}  // namespace rgpu::net
