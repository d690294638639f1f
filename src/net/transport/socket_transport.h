// SPDX-License-Identifier: Apache-2.0
// A connection over a socket: TCP, or the near end of a tunnel around it.
#pragma once

#include <memory>

#include "net/transport/own_socket.h"
#include "net/transport/transport.h"
#include "net/transport/tunnel.h"

namespace rgpu::net {

class SocketTransport : public Transport {
public:
    // `moment`: the kernel ends a wait of that many milliseconds, so that one of that length costs
    // no second call; 0: it does not.
    explicit SocketTransport(Fd fd, std::shared_ptr<Tunnel> tunnel = nullptr, int moment = 0);

    const char *name() const override { return tunnel_ ? "tls" : "tcp"; }
    ssize_t receive(void *to, size_t bytes, int timeout) override;
    ssize_t send(const iovec *parts, int count, int timeout) override;
    unsigned wait(unsigned events, int timeout) override;
    size_t worth_reading() const override { return 128 << 10; }
    bool ours() const override { return socket_.ours(); }
    void shutdown() override;
    void leave_to_parent() override;

protected:
    OwnSocket socket_;

private:
    std::shared_ptr<Tunnel> tunnel_;
    int moment_;
};

}  // namespace rgpu::net
