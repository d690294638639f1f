// SPDX-License-Identifier: Apache-2.0
// TLS 1.3 around a data connection: a thread between the TCP socket and a socket pair, whose other
// end takes the connection's place.
//
// The key is a pre-shared one, made by both sides from the lease's secret and the handshake's
// nonces (wire/hello.h), good for this connection alone; it authenticates both sides, and with it
// goes an ephemeral (EC)DH exchange: whoever learns the secret later can read nothing that was
// recorded (RFC 8446, 2.2 and 4.2.9). No certificates, no tickets, no early data.
#pragma once

#include <memory>

#include "net/transport/openssl.h"
#include "net/transport/socket.h"
#include "util/sha256.h"

namespace rgpu::net {

enum class Side { client, server };

class Tunnel {
public:
    // Shakes hands over the socket within the deadline, in a thread that then carries bytes until
    // either end closes. `openssl` is called in that thread. Fails with `invalid` when the other
    // side does not have the key or speaks no TLS, else as sockets do.
    static Result<std::shared_ptr<Tunnel>> open(Fd socket, Side, const Digest &key,
                                                Result<const Openssl *> (*openssl)(), Deadline);

    // The end to use instead of the socket; once.
    Fd take_plain() { return std::move(mine_); }

    // Sends what was written to the plain end, which is closed for writing, and waits for that, a
    // second at most.
    void finish(int plain);
    // In the child of a fork, where the thread is not: lets go of the connection.
    void leave_to_parent();

    struct Ends;  // of the thread

private:
    explicit Tunnel(std::shared_ptr<Ends> ends, Fd mine)
        : ends_(std::move(ends)), mine_(std::move(mine))
    {}
    std::shared_ptr<Ends> ends_;
    Fd mine_;
};

}  // namespace rgpu::net
