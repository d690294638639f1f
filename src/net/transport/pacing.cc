// SPDX-License-Identifier: Apache-2.0
#include "net/transport/pacing.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cstring>

#include "net/transport/tcp_ends.h"

namespace rgpu::net {

namespace {

constexpr char kUnpaced[] = "reno";

bool is_loopback(const sockaddr_storage &a)
{
    if (a.ss_family == AF_INET)
        return ntohl(reinterpret_cast<const sockaddr_in &>(a).sin_addr.s_addr) >> 24 ==
               IN_LOOPBACKNET;
    return a.ss_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6 &>(a).sin6_addr);
}

}  // namespace

bool on_one_host(int fd)
{
    sockaddr_storage there{};
    socklen_t size = sizeof there;
    return getpeername(fd, reinterpret_cast<sockaddr *>(&there), &size) == 0 &&
           (is_loopback(there) || ends_meet(fd));
}

void send_unpaced_on_one_host(int fd)
{
    if (on_one_host(fd)) setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, kUnpaced, strlen(kUnpaced));
}

}  // namespace rgpu::net
