// SPDX-License-Identifier: Apache-2.0
// Sockets by poll(2), so that nothing here waits past its deadline.
#include "net/transport/socket.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "net/transport/own_socket.h"
#include "net/transport/pacing.h"

namespace rgpu::net {

namespace {

struct FreeAddresses {
    void operator()(addrinfo *a) const { freeaddrinfo(a); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

Result<Addresses> resolve(std::string_view address, bool passive)
{
    size_t colon = address.rfind(':');
    if (colon == address.npos || colon + 1 == address.size())
        return error(ErrorKind::invalid, "address \"%.*s\" has no port (write host:port)",
                     static_cast<int>(address.size()), address.data());
    std::string host(address.substr(0, colon)), port(address.substr(colon + 1));
    if (host.size() > 1 && host.front() == '[' && host.back() == ']')
        host = host.substr(1, host.size() - 2);
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = passive ? AI_PASSIVE : 0;
    addrinfo *found = nullptr;
    int rc = getaddrinfo(host.empty() ? nullptr : host.c_str(), port.c_str(), &hints, &found);
    if (rc != 0)
        return rgpu::error(rc == EAI_AGAIN ? ErrorKind::unavailable : ErrorKind::invalid, "%s: %s",
                           host.c_str(), gai_strerror(rc));
    return Addresses(found);
}

// Waits until `events` may happen; false when the deadline has passed.
bool wait_for(int fd, short events, Deadline deadline)
{
    for (;;) {
        auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
        pollfd p{fd, events, 0};
        int n = poll(&p, 1, left < 0 ? 0 : static_cast<int>(std::min<long>(left, 3'600'000)));
        if (n > 0) return true;
        if (n == 0 && left <= 0) return false;
        if (n < 0 && errno != EINTR) return true;  // the call that follows says what is wrong
    }
}

// Small writes are not held back: a second one would wait for the other side's delayed
// acknowledgement of the first, 40 ms. A host that lost its power says nothing more: who waits for
// it learns so after kPeerGone, and not after the kernel's two hours. (TCP_USER_TIMEOUT would also
// cut connections whose other end is alive and does not read for as long.)
void prepare(int fd)
{
    constexpr int kOn = 1, kIdle = 30, kProbes = 6;
    constexpr int kInterval = (static_cast<int>(kPeerGone.count()) - kIdle) / kProbes;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &kOn, sizeof kOn);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &kOn, sizeof kOn);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &kIdle, sizeof kIdle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &kInterval, sizeof kInterval);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &kProbes, sizeof kProbes);
}

int connect_one(const addrinfo &a, Deadline deadline, Fd &out)
{
    // In another's process, and a program may close all descriptors meanwhile.
    OwnSocket fd(
        Fd(socket(a.ai_family, a.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a.ai_protocol)));
    if (fd.get() < 0) return errno;
    if (::connect(fd.get(), a.ai_addr, a.ai_addrlen) != 0) {
        if (errno != EINPROGRESS) return errno;
        if (!wait_for(fd.get(), POLLOUT, deadline)) return ETIMEDOUT;
        if (!fd.ours()) return EBADF;
        int err = 0;
        socklen_t size = sizeof err;
        if (getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &err, &size) != 0) return errno;
        if (err) return err;
    }
    prepare(fd.get());
    send_unpaced_on_one_host(fd.get());
    fcntl(fd.get(), F_SETFL, fcntl(fd.get(), F_GETFL) & ~O_NONBLOCK);
    out = fd.release();
    return out ? 0 : EBADF;
}

}  // namespace

Result<Fd> connect(std::string_view address, Deadline deadline)
{
    auto found = resolve(address, false);
    if (!found) return std::move(found).error();
    int err = 0;
    for (const addrinfo *a = found->get(); a; a = a->ai_next) {
        Fd fd;
        err = connect_one(*a, deadline, fd);
        if (err == 0) return fd;
    }
    return error(err == ECONNREFUSED ? ErrorKind::disconnected : ErrorKind::unavailable,
                 "cannot connect to %.*s: %s", static_cast<int>(address.size()), address.data(),
                 strerror(err));
}

Result<Fd> listen(std::string_view address)
{
    auto found = resolve(address, true);
    if (!found) return std::move(found).error();
    const addrinfo &a = **found;
    Fd fd(socket(a.ai_family, a.ai_socktype | SOCK_CLOEXEC, a.ai_protocol));
    const int on = 1;
    if (fd) setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (fd) prepare(fd.get());  // what is accepted inherits it (tcp(7))
    if (!fd || bind(fd.get(), a.ai_addr, a.ai_addrlen) != 0 || ::listen(fd.get(), SOMAXCONN) != 0)
        return error(ErrorKind::unavailable, "cannot listen on %.*s: %s",
                     static_cast<int>(address.size()), address.data(), strerror(errno));
    return fd;
}

int local_port(int fd)
{
    sockaddr_storage a{};
    socklen_t size = sizeof a;
    if (getsockname(fd, reinterpret_cast<sockaddr *>(&a), &size) != 0) return -1;
    return ntohs(a.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6 &>(a).sin6_port
                                         : reinterpret_cast<sockaddr_in &>(a).sin_port);
}

std::string peer_name(int fd)
{
    sockaddr_storage a{};
    socklen_t size = sizeof a;
    char host[64], port[16];
    if (getpeername(fd, reinterpret_cast<sockaddr *>(&a), &size) != 0 ||
        getnameinfo(reinterpret_cast<sockaddr *>(&a), size, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return "unknown";
    return std::string(host) + ":" + port;
}

Result<void> receive_all(int fd, void *data, size_t bytes, Deadline deadline)
{
    auto p = static_cast<char *>(data);
    while (bytes) {
        if (!wait_for(fd, POLLIN, deadline))
            return error(ErrorKind::unavailable, "no answer in time");
        ssize_t n = recv(fd, p, bytes, MSG_DONTWAIT);
        if (n == 0) return error(ErrorKind::disconnected, "connection closed by the peer");
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return error(ErrorKind::disconnected, "%s", strerror(errno));
        if (n > 0) p += n, bytes -= static_cast<size_t>(n);
    }
    return {};
}

Result<void> send_all(int fd, const void *data, size_t bytes, Deadline deadline)
{
    auto p = static_cast<const char *>(data);
    while (bytes) {
        if (!wait_for(fd, POLLOUT, deadline))
            return error(ErrorKind::unavailable, "the peer does not read");
        ssize_t n = send(fd, p, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return error(ErrorKind::disconnected, "%s", strerror(errno));
        if (n > 0) p += n, bytes -= static_cast<size_t>(n);
    }
    return {};
}

}  // namespace rgpu::net
