// SPDX-License-Identifier: Apache-2.0
// The bytes of one connection to the control port, in the clear or in TLS: the peer's first byte
// says which. A TLS connection begins with a handshake record (22; RFC 8446, section 5.1), and no
// HTTP request with such a byte.
#pragma once

#include <memory>

#include "rgpud/ports/tls_identity.h"
#include "util/fd.h"

struct ssl_st;  // OpenSSL's

namespace rgpu::serverd {

// Movable. One thread at a time.
class PeerStream {
public:
    PeerStream() = default;
    // A socket that does not block. Without an identity all bytes are in the clear.
    PeerStream(Fd socket, TlsIdentity *identity) : socket_(std::move(socket)), identity_(identity)
    {}

    int fd() const { return socket_.get(); }
    // Known once receive() has returned bytes.
    bool is_encrypted() const { return tls_ != nullptr; }

    // As recv(2) and send(2) with MSG_DONTWAIT: 0 is the peer's end, -1 with EAGAIN means to wait
    // until the socket can be read, or written. What send() did not take must be what it is given
    // next. receive() wants room for a whole record, kRecord bytes, or it may leave bytes that
    // epoll(7) does not see.
    static constexpr size_t kRecord = 16 * 1024;
    ssize_t receive(char *to, size_t size);
    ssize_t send(const char *from, size_t size);
    // Tells the peer that nothing follows.
    void end_sending();

private:
    struct Free {
        void operator()(ssl_st *tls) const;
    };

    bool choose();
    ssize_t failed(int returned);

    Fd socket_;
    TlsIdentity *identity_ = nullptr;
    bool chosen_ = false;
    std::unique_ptr<ssl_st, Free> tls_;
};

}  // namespace rgpu::serverd
