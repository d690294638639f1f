// SPDX-License-Identifier: Apache-2.0
// OpenSSL sees memory only: all reading and writing of descriptors is here.
#include "net/transport/tunnel.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "net/transport/own_socket.h"

namespace rgpu::net {

namespace {

constexpr size_t kChunk = 128 << 10;
constexpr std::string_view kIdentity = "rgpu";
// Its hash is what a pre-shared key of 32 bytes is for (RFC 8446, 4.2.11); and its number, for
// SSL_CIPHER_find.
constexpr const char *kCipher = "TLS_AES_128_GCM_SHA256";
constexpr unsigned char kCipherNumber[] = {0x13, 0x01};

}  // namespace

// Shared by the thread and the tunnel: whichever goes last.
struct Tunnel::Ends {
    Ends(Fd s, Fd p) : socket(std::move(s)), plain(std::move(p)) {}
    OwnSocket socket, plain;
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<Result<void>> opened;
    bool ended = false;
};

namespace {

// One connection of OpenSSL's, fed from memory.
class Connection {
public:
    Connection(const Openssl &o, Side side, const Digest &key) : o_(o), side_(side), key_(key) {}
    ~Connection()
    {
        if (ssl_) o_.SSL_free(ssl_);  // with its BIOs
        if (context_) o_.SSL_CTX_free(context_);
    }

    bool prepare()
    {
        // NO_ATEXIT: where this OpenSSL is ours alone, nothing of it ends before the process does.
        o_.OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT | OPENSSL_INIT_NO_LOAD_CONFIG, nullptr);
        context_ = o_.SSL_CTX_new(o_.TLS_method());
        if (!context_ ||
            !o_.SSL_CTX_ctrl(context_, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_3_VERSION, nullptr) ||
            !o_.SSL_CTX_ctrl(context_, SSL_CTRL_SET_MAX_PROTO_VERSION, TLS1_3_VERSION, nullptr) ||
            !o_.SSL_CTX_set_ciphersuites(context_, kCipher) ||
            !o_.SSL_CTX_set_num_tickets(context_, 0))
            return false;
        o_.SSL_CTX_ctrl(context_, SSL_CTRL_MODE,
                        SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER,
                        nullptr);
        ssl_ = o_.SSL_new(context_);
        from_ = o_.BIO_new(o_.BIO_s_mem()), to_ = o_.BIO_new(o_.BIO_s_mem());
        if (!ssl_ || !from_ || !to_) return false;
        o_.SSL_set_bio(ssl_, from_, to_);
        if (side_ == Side::client) {
            o_.SSL_set_psk_use_session_callback(ssl_, use_key);
            o_.SSL_set_connect_state(ssl_);
        } else {
            // A client that offers no key, or another, finds a server without certificate: the
            // handshake fails.
            o_.SSL_set_psk_find_session_callback(ssl_, find_key);
            o_.SSL_set_accept_state(ssl_);
        }
        return true;
    }

    // 1: done, 0: more bytes are needed, -1: it failed.
    int shake_hands()
    {
        o_.ERR_clear_error();
        shaking_hands = this;
        const int r = o_.SSL_do_handshake(ssl_);
        shaking_hands = nullptr;
        return r == 1 ? 1 : wants_more(r) ? 0 : -1;
    }
    // What came from the other side, as it came.
    void feed(const uint8_t *data, size_t bytes)
    {
        o_.BIO_write(from_, data, static_cast<int>(bytes));
    }
    // What is to be sent to the other side; 0: nothing.
    size_t drain(uint8_t *data, size_t room)
    {
        const int n = o_.BIO_read(to_, data, static_cast<int>(room));
        return n > 0 ? static_cast<size_t>(n) : 0;
    }
    bool write(const uint8_t *data, size_t bytes)
    {
        for (size_t at = 0; at < bytes;) {
            o_.ERR_clear_error();
            const int n = o_.SSL_write(ssl_, data + at, static_cast<int>(bytes - at));
            if (n <= 0) return false;
            at += static_cast<size_t>(n);
        }
        return true;
    }
    // Bytes of the other side's; 0: none now, -1: no more will come.
    ssize_t read(uint8_t *data, size_t room)
    {
        size_t got = 0;
        while (got < room) {
            o_.ERR_clear_error();
            const int n = o_.SSL_read(ssl_, data + got, static_cast<int>(room - got));
            if (n > 0) {
                got += static_cast<size_t>(n);
                continue;
            }
            if (got || wants_more(n)) break;
            return -1;
        }
        return static_cast<ssize_t>(got);
    }
    void close() { o_.SSL_shutdown(ssl_); }

    std::string why() const
    {
        char text[256] = "the connection ended";
        if (unsigned long code = o_.ERR_get_error()) o_.ERR_error_string_n(code, text, sizeof text);
        return text;
    }

private:
    bool wants_more(int r) const { return o_.SSL_get_error(ssl_, r) == SSL_ERROR_WANT_READ; }

    SSL_SESSION *session(SSL *ssl) const
    {
        SSL_SESSION *s = o_.SSL_SESSION_new();
        const SSL_CIPHER *cipher = o_.SSL_CIPHER_find(ssl, kCipherNumber);
        if (s && cipher && o_.SSL_SESSION_set1_master_key(s, key_.data(), key_.size()) &&
            o_.SSL_SESSION_set_cipher(s, cipher) &&
            o_.SSL_SESSION_set_protocol_version(s, TLS1_3_VERSION))
            return s;
        if (s) o_.SSL_SESSION_free(s);
        return nullptr;
    }
    // OpenSSL calls these within SSL_do_handshake.
    static int use_key(SSL *ssl, const EVP_MD *, const unsigned char **id, size_t *bytes,
                       SSL_SESSION **session)
    {
        *id = reinterpret_cast<const unsigned char *>(kIdentity.data());
        *bytes = kIdentity.size();
        *session = shaking_hands->session(ssl);
        return *session != nullptr;
    }
    static int find_key(SSL *ssl, const unsigned char *id, size_t bytes, SSL_SESSION **session)
    {
        *session = nullptr;  // and 1: not a key of ours
        if (std::string_view(reinterpret_cast<const char *>(id), bytes) != kIdentity) return 1;
        *session = shaking_hands->session(ssl);
        return *session != nullptr;
    }
    static thread_local const Connection *shaking_hands;

    const Openssl &o_;
    Side side_;
    const Digest key_;
    SSL_CTX *context_ = nullptr;
    SSL *ssl_ = nullptr;
    BIO *from_ = nullptr, *to_ = nullptr;  // the SSL's
};

thread_local const Connection *Connection::shaking_hands;

// What the thread does: the handshake, then bytes both ways until one end closes.
class Carrier {
public:
    Carrier(Tunnel::Ends &ends, Connection &tls)
        : ends_(ends), tls_(tls), out_(kChunk), in_(kChunk), sealed_(kChunk)
    {}

    Result<void> shake_hands(Deadline deadline)
    {
        for (;;) {
            const int done = tls_.shake_hands();
            if (!send_sealed(deadline))
                return error(ErrorKind::disconnected, "encryption: the connection ended");
            if (done > 0) return {};
            if (done < 0)
                return error(ErrorKind::invalid,
                             "encryption: the other side does not hold this lease's key (%s)",
                             tls_.why().c_str());
            if (!wait(ends_.socket, POLLIN, deadline))
                return error(ErrorKind::unavailable, "encryption: no answer in time");
            if (!receive_sealed())
                return error(ErrorKind::disconnected,
                             "encryption: the connection was closed during the handshake");
        }
    }

    void carry()
    {
        while (ends_.socket.ours() && ends_.plain.ours() && step()) {}
        shutdown_both();
    }

private:
    // False: it is over.
    bool step()
    {
        bool moved = false;
        if (sealed_at_ == sealed_end_ && !seal_some(moved)) return false;
        if (!send_some(moved)) return false;
        if (in_at_ == in_end_ && !open_some(moved)) return false;
        if (!deliver_some(moved)) return false;
        if (moved) return true;
        pollfd looks[2] = {{ends_.socket.get(), 0, 0}, {ends_.plain.get(), 0, 0}};
        if (sealed_at_ != sealed_end_) looks[0].events |= POLLOUT;
        if (sealed_at_ == sealed_end_) looks[1].events |= POLLIN;
        if (in_at_ == in_end_) looks[0].events |= POLLIN;
        if (in_at_ != in_end_) looks[1].events |= POLLOUT;
        return poll(looks, 2, -1) > 0 || errno == EINTR;
    }

    // plain end -> TLS
    bool seal_some(bool &moved)
    {
        sealed_at_ = sealed_end_ = 0;
        if (!(sealed_end_ = tls_.drain(sealed_.data(), sealed_.size()))) {
            const ssize_t n = recv(ends_.plain.get(), out_.data(), out_.size(), MSG_DONTWAIT);
            if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
                tls_.close();
                sealed_end_ = tls_.drain(sealed_.data(), sealed_.size());
                bool ignored;
                send_some(ignored);
                return false;
            }
            if (n < 0) return true;
            if (!tls_.write(out_.data(), static_cast<size_t>(n))) return false;
            sealed_end_ = tls_.drain(sealed_.data(), sealed_.size());
        }
        moved = true;
        return true;
    }
    bool send_some(bool &moved)
    {
        if (sealed_at_ == sealed_end_) return true;
        const ssize_t n = send(ends_.socket.get(), &sealed_[sealed_at_], sealed_end_ - sealed_at_,
                               MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0) return errno == EAGAIN || errno == EINTR;
        sealed_at_ += static_cast<size_t>(n);
        return moved = true;
    }
    // TLS -> plain end
    bool open_some(bool &moved)
    {
        in_at_ = in_end_ = 0;
        ssize_t n = tls_.read(in_.data(), in_.size());
        if (n == 0) {
            const ssize_t came = receive_some();
            if (came < 0) return true;
            if (came == 0) return false;
            n = tls_.read(in_.data(), in_.size());
            moved = true;
        }
        if (n < 0) return false;
        if (n > 0) moved = true;
        in_end_ = static_cast<size_t>(n);
        return true;
    }
    bool deliver_some(bool &moved)
    {
        if (in_at_ == in_end_) return true;
        const ssize_t n =
            send(ends_.plain.get(), &in_[in_at_], in_end_ - in_at_, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0) return errno == EAGAIN || errno == EINTR;
        in_at_ += static_cast<size_t>(n);
        return moved = true;
    }

    // 0: closed, -1: nothing now.
    ssize_t receive_some()
    {
        const ssize_t n = recv(ends_.socket.get(), out_.data(), out_.size(), MSG_DONTWAIT);
        if (n > 0) tls_.feed(out_.data(), static_cast<size_t>(n));
        return n < 0 && (errno == EAGAIN || errno == EINTR) ? -1 : n < 0 ? 0 : n;
    }
    bool receive_sealed() { return ends_.socket.ours() && receive_some() != 0; }
    bool send_sealed(Deadline deadline)
    {
        while (size_t n = tls_.drain(sealed_.data(), sealed_.size()))
            if (!ends_.socket.ours() || !send_all(ends_.socket.get(), sealed_.data(), n, deadline))
                return false;
        return true;
    }
    static bool wait(const OwnSocket &end, short events, Deadline deadline)
    {
        auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
        pollfd look{end.get(), events, 0};
        return left > 0 && (poll(&look, 1, static_cast<int>(left)) != 0);
    }

    void shutdown_both()
    {
        for (OwnSocket *end : {&ends_.socket, &ends_.plain})
            if (end->ours()) shutdown(end->get(), SHUT_RDWR);
    }

    Tunnel::Ends &ends_;
    Connection &tls_;
    std::vector<uint8_t> out_, in_,
        sealed_;  // out_ serves both directions: it is empty between two steps
    size_t in_at_ = 0, in_end_ = 0, sealed_at_ = 0, sealed_end_ = 0;
};

// Returns whether the thread may end (openssl.h).
bool run(const std::shared_ptr<Tunnel::Ends> &ends, Side side, const Digest &key,
         Result<const Openssl *> (*load)(), Deadline deadline)
{
    auto tell = [&](Result<void> result) {
        std::lock_guard lock(ends->mutex);
        ends->opened = std::move(result);
        ends->changed.notify_all();
    };
    auto openssl = load();
    if (!openssl) {
        tell(std::move(openssl).error());
        return true;
    }
    if ((*openssl)->own_locale) (*openssl)->own_locale(LC_GLOBAL_LOCALE);
    {
        Connection tls(**openssl, side, key);
        auto opened = tls.prepare() ? Result<void>()
                                    : Result<void>(error(ErrorKind::internal, "encryption: %s",
                                                         tls.why().c_str()));
        Carrier carrier(*ends, tls);
        if (opened) opened = carrier.shake_hands(deadline);
        const bool ok = opened.has_value();
        tell(std::move(opened));
        if (ok) carrier.carry();
    }
    return !(*openssl)->own_locale;
}

// A thread of ours in the program's process takes none of its signals.
class NoSignals {
public:
    NoSignals()
    {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~NoSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

private:
    sigset_t before_;
};

}  // namespace

Result<std::shared_ptr<Tunnel>> Tunnel::open(Fd socket, Side side, const Digest &key,
                                             Result<const Openssl *> (*load)(), Deadline deadline)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return error(ErrorKind::exhausted, "encryption: no socket pair: %s", strerror(errno));
    Fd mine(pair[0]);
    auto ends = std::make_shared<Ends>(std::move(socket), Fd(pair[1]));
    try {
        NoSignals none;
        std::thread([=] {
            bool may_end = true;
            try {
                may_end = run(ends, side, key, load, deadline);
            } catch (const std::exception &) {
                // Of memory that there is not: the connection is over, as where it breaks.
            }
            {
                std::lock_guard lock(ends->mutex);
                if (!ends->opened)
                    ends->opened = Result<void>(Error{ErrorKind::exhausted, "no memory"});
                ends->socket.let_go(), ends->plain.let_go();
                ends->ended = true;
                ends->changed.notify_all();
            }
            // Another thread sets it. NOLINTNEXTLINE(bugprone-infinite-loop)
            while (!may_end) pause();
        }).detach();
    } catch (const std::system_error &failure) {
        return error(ErrorKind::exhausted, "encryption: no thread: %s", failure.what());
    }
    std::unique_lock lock(ends->mutex);
    ends->changed.wait(lock, [&] { return ends->opened.has_value(); });
    if (!*ends->opened) return std::move(*ends->opened).error();
    return std::shared_ptr<Tunnel>(new Tunnel(ends, std::move(mine)));
}

void Tunnel::finish(int plain)
{
    shutdown(plain, SHUT_WR);
    std::unique_lock lock(ends_->mutex);
    ends_->changed.wait_for(lock, std::chrono::seconds(1), [&] { return ends_->ended; });
}

void Tunnel::leave_to_parent()
{
    ends_->socket.let_go(), ends_->plain.let_go();
    mine_.reset();
}

}  // namespace rgpu::net
