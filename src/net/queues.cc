#include "net/queues.h"

#include <linux/tcp.h>  // of glibc's netinet/tcp.h, struct tcp_info ends before tcpi_min_rtt
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>

namespace rgpu::net {

namespace {

// Handed to the kernel and not sent yet. The kernel wakes the sender at half of it.
constexpr int kUnsent = 512 << 10;
// Come and not read yet; the kernel doubles it for what it needs itself. Without a bound it lets that grow to tcp_rmem's
// last number: 6 MiB and more, which take milliseconds to read.
constexpr int kUnread = 1 << 20;
// More than one connection carries, in bytes a microsecond: a window of a round trip's worth does not slow it down.
constexpr uint64_t kFastest = 5000;

}  // namespace

void bound_queues(int fd)
{
    tcp_info info{};
    socklen_t size = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return;
    setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kUnsent, sizeof kUnsent);

    int given = 0, lock = 0;
    socklen_t given_size = sizeof given, lock_size = sizeof lock;
    // Where a bound cannot be taken back (Linux before 5.14), none is made.
    if (getsockopt(fd, SOL_SOCKET, SO_BUF_LOCK, &lock, &lock_size) != 0) return;
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &kUnread, sizeof kUnread) != 0 || getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &given, &given_size) != 0) return;
    // net.core.rmem_max may allow less than a peer at this distance needs.
    if (static_cast<uint64_t>(given) / 2 < kFastest * info.tcpi_min_rtt) setsockopt(fd, SOL_SOCKET, SO_BUF_LOCK, &lock, sizeof lock);
}

}  // namespace rgpu::net
