// SPDX-License-Identifier: Apache-2.0
#include "rgpud/ports/peer_stream.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <cerrno>

namespace rgpu::serverd {
namespace {

constexpr char kHandshakeRecord = 22;

}  // namespace

void PeerStream::Free::operator()(ssl_st *tls) const { SSL_free(tls); }

// False, with errno: nothing is there to choose by, or there is no memory.
bool PeerStream::choose()
{
    char first;
    const ssize_t n = recv(socket_.get(), &first, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n < 0) return false;
    chosen_ = true;
    if (n == 0 || !identity_ || first != kHandshakeRecord) return true;
    tls_.reset(SSL_new(identity_->context().get()));
    if (tls_ && SSL_set_fd(tls_.get(), socket_.get()) == 1)
        return SSL_set_accept_state(tls_.get()), true;
    ERR_clear_error();
    errno = ENOMEM;
    return false;
}

// What a call of OpenSSL that did nothing means to who calls recv(2) or send(2).
ssize_t PeerStream::failed(int returned)
{
    switch (SSL_get_error(tls_.get(), returned)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE: errno = EAGAIN; return -1;
    case SSL_ERROR_ZERO_RETURN: return 0;
    default: errno = EPROTO; return -1;
    }
}

ssize_t PeerStream::receive(char *to, size_t size)
{
    if (!chosen_ && !choose()) return -1;
    if (!tls_) return recv(socket_.get(), to, size, MSG_DONTWAIT);
    ERR_clear_error();
    size_t n = 0;
    const int done = SSL_read_ex(tls_.get(), to, size, &n);
    return done == 1 ? static_cast<ssize_t>(n) : failed(done);
}

ssize_t PeerStream::send(const char *from, size_t size)
{
    if (!tls_) return ::send(socket_.get(), from, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    size_t sent = 0;
    while (sent < size) {
        ERR_clear_error();
        size_t n = 0;
        const int done = SSL_write_ex(tls_.get(), from + sent, size - sent, &n);
        if (done != 1) return sent ? static_cast<ssize_t>(sent) : failed(done);
        sent += n;
    }
    return static_cast<ssize_t>(sent);
}

void PeerStream::end_sending()
{
    if (tls_) {
        ERR_clear_error();
        SSL_shutdown(tls_.get());
    }
    shutdown(socket_.get(), SHUT_WR);
}

}  // namespace rgpu::serverd
