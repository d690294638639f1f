#include "net/pacing.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cstring>

namespace rgpu::net {

namespace {

constexpr char kUnpaced[] = "reno";

bool is_loopback(const sockaddr_storage &a)
{
    if (a.ss_family == AF_INET) return ntohl(reinterpret_cast<const sockaddr_in &>(a).sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    return a.ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6 &>(a).sin6_addr);
}

bool is_same(const sockaddr_storage &a, const sockaddr_storage &b)
{
    if (a.ss_family != b.ss_family) return false;
    if (a.ss_family == AF_INET) return reinterpret_cast<const sockaddr_in &>(a).sin_addr.s_addr == reinterpret_cast<const sockaddr_in &>(b).sin_addr.s_addr;
    return a.ss_family == AF_INET6 && IN6_ARE_ADDR_EQUAL(&reinterpret_cast<const sockaddr_in6 &>(a).sin6_addr, &reinterpret_cast<const sockaddr_in6 &>(b).sin6_addr);
}

}  // namespace

void send_unpaced_on_one_host(int fd)
{
    sockaddr_storage here{}, there{};
    socklen_t here_size = sizeof here, there_size = sizeof there;
    if (getsockname(fd, reinterpret_cast<sockaddr *>(&here), &here_size) != 0 || getpeername(fd, reinterpret_cast<sockaddr *>(&there), &there_size) != 0) return;
    if (is_loopback(there) || is_same(here, there)) setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, kUnpaced, strlen(kUnpaced));
}

}  // namespace rgpu::net
