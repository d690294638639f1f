// SPDX-License-Identifier: Apache-2.0
#include "net/transport/socket_transport.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>

#include "net/transport/queues.h"

namespace rgpu::net {

SocketTransport::SocketTransport(Fd fd, std::shared_ptr<Tunnel> tunnel, int moment)
    : socket_(std::move(fd)), tunnel_(std::move(tunnel)), moment_(moment)
{
    if (!tunnel_) bound_queues(socket_.get());
    const timeval time = {moment / 1000, moment % 1000 * 1000};
    if (moment) setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
}

ssize_t SocketTransport::receive(void *to, size_t bytes, int timeout)
{
    // The kernel's own wait has one length.
    if (timeout && timeout != (moment_ ? moment_ : -1)) {
        while (!wait(kData, timeout))
            if (timeout > 0) return errno = EAGAIN, -1;
        timeout = 0;
    }
    ssize_t n;
    while ((n = recv(socket_.get(), to, bytes, timeout ? 0 : MSG_DONTWAIT)) < 0 && errno == EINTR) {
    }
    return n;
}

ssize_t SocketTransport::send(const iovec *parts, int count, int timeout)
{
    msghdr m{};
    m.msg_iov = const_cast<iovec *>(parts);
    m.msg_iovlen = static_cast<size_t>(count);
    if (timeout > 0 && !wait(kRoom, timeout)) return errno = EAGAIN, -1;
    ssize_t n;
    while ((n = sendmsg(socket_.get(), &m, MSG_NOSIGNAL | (timeout < 0 ? 0 : MSG_DONTWAIT))) < 0 &&
           errno == EINTR) {}
    return n;
}

unsigned SocketTransport::wait(unsigned events, int timeout)
{
    const int wanted = (events & kData ? POLLIN : 0) | (events & kRoom ? POLLOUT : 0);
    pollfd look{socket_.get(), static_cast<short>(wanted), 0};
    if (poll(&look, 1, timeout) <= 0) return 0;
    const bool over = look.revents & (POLLERR | POLLHUP | POLLNVAL);
    return events & ((look.revents & POLLIN || over ? kData : 0u) |
                     (look.revents & POLLOUT || over ? kRoom : 0u));
}

void SocketTransport::shutdown()
{
    if (ours()) ::shutdown(socket_.get(), SHUT_RDWR);
}

void SocketTransport::leave_to_parent()
{
    socket_.let_go();
    if (tunnel_) tunnel_->leave_to_parent();
}

}  // namespace rgpu::net
