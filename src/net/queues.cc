#include "net/queues.h"

#include <linux/socket.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "net/pacing.h"

namespace rgpu::net {

namespace {

// The kernel wakes the sender at half of it.
constexpr int kUnsent = 512 << 10;
// With less the two ends wait for each other too often. The buffer around it is about twice that.
constexpr int kUnread = 1 << 20;

}  // namespace

void bound_queues(int fd)
{
    setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kUnsent, sizeof kUnsent);
}

// SO_RCVBUF may be bounded by net.core.rmem_max to a fifth of this, and rgpud has no right to more. SO_RCVLOWAT makes the buffer large enough for as much
// (tcp_set_rcvlowat), and SO_BUF_LOCK (Linux 5.15) keeps the kernel from changing its size.
void bound_unread_on_one_host(int fd)
{
    const int lowest = 1, lock = SOCK_RCVBUF_LOCK;
    int locked = 0;
    socklen_t size = sizeof locked;
    if (!on_one_host(fd) || getsockopt(fd, SOL_SOCKET, SO_BUF_LOCK, &locked, &size) != 0) return;
    if (setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &kUnread, sizeof kUnread) != 0) return;
    setsockopt(fd, SOL_SOCKET, SO_BUF_LOCK, &lock, sizeof lock);
    setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &lowest, sizeof lowest);
}

}  // namespace rgpu::net
