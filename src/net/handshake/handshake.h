// SPDX-License-Identifier: Apache-2.0
// The data port's handshake, both sides. See wire/hello.h for the messages.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "net/transport/socket.h"
#include "wire/hello.h"

namespace rgpu::net {

// The key for the tunnel that follows (tunnel.h), where the server asks for one.
using TunnelKey = std::optional<Digest>;

// What a client learns besides.
struct Accepted {
    TunnelKey key;
    bool takes_offers = false;  // of shared memory (shared_offer.h)
    bool takes_ucx = false;     // offers of UCX (ucx_offer.h)
    bool takes_packed = false;  // packed frames (packer.h)
    bool takes_lanes = false;   // further connections (laned_transport.h)
    bool takes_band = false;    // a word on where memory is to lie (wire/bands.h)
    bool takes_placed = false;  // memory at addresses that the client chooses (wire/bands.h)
    bool takes_linked = false;  // images that nvcc -rdc has linked (wire/module_bodies.h)
    bool takes_pools = false;   // pools of memory at such addresses (wire/bands.h)
    bool takes_nccl = false;    // calls of NCCL (wire/nccl.h)
};

// Client: proves that it holds the secret of `lease` (`secret` as raw bytes), and that the server
// does. Fails with `disconnected`, `unavailable`, or `invalid` with the server's reason.
Result<Accepted> client_handshake(int fd, const std::string &lease, const std::string &secret,
                                  uint64_t table_digest, Deadline,
                                  wire::Purpose purpose = wire::Purpose::work);

// Who has connected, after a successful handshake.
struct Client {
    std::string lease;
    std::string host;           // as the client says: for the log only
    uint32_t pid = 0;           // likewise
    uint64_t table_digest = 0;  // or a worker's number (wire/hello.h)
    wire::Purpose purpose = wire::Purpose::work;
    TunnelKey key;
};

// What a server says of a lease that it does not know, or whose secret is another.
inline constexpr const char *kUnknownLease = "this lease is not known here, or has ended";

// The secret (raw bytes) of a lease that may connect now, or nothing.
using SecretLookup = std::function<std::optional<std::string>(const std::string &lease)>;

// Server: reads nothing but the hello, answers within the deadline. A lease that `lookup` does not
// know and a wrong proof are refused with the same words. Fails with `invalid` (garbage, wrong
// version), or as sockets fail.
struct Terms {
    bool encrypt = false;  // a tunnel must follow, and no offer
    bool shared = true;    // offers of shared memory are taken, where both ends meet
    bool ucx = false;      // offers of UCX are taken
};
Result<Client> server_handshake(int fd, const SecretLookup &lookup, Deadline, const Terms & = {});
// The same in two steps, for a thread that waits for several clients at once: greets one, and
// answers what it has said. Neither waits where the connection has sent nothing else.
Result<wire::ServerHello> greet(int fd, const Terms &, Deadline);
Result<Client> answer_hello(int fd, const wire::ServerHello &mine, const wire::ClientHello &,
                            const SecretLookup &lookup, const Terms &, Deadline);

}  // namespace rgpu::net
