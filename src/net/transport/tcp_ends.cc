// SPDX-License-Identifier: Apache-2.0
#include "net/transport/tcp_ends.h"

#include <netinet/in.h>
#include <sys/socket.h>

namespace rgpu::net {

namespace {

TcpEnd end_of(int tcp, int (*get)(int, sockaddr *, socklen_t *))
{
    TcpEnd end;
    sockaddr_storage a{};
    socklen_t size = sizeof a;
    if (get(tcp, reinterpret_cast<sockaddr *>(&a), &size) != 0) return end;
    if (a.ss_family == AF_INET) {
        auto &in = reinterpret_cast<sockaddr_in &>(a);
        end.family = 4, end.port = ntohs(in.sin_port);
        memcpy(end.address, &in.sin_addr, 4);
    } else if (a.ss_family == AF_INET6) {
        auto &in = reinterpret_cast<sockaddr_in6 &>(a);
        // A socket for both families shows IPv4 addresses so (ipv6(7)); the other end may have one
        // for IPv4.
        const bool four = IN6_IS_ADDR_V4MAPPED(&in.sin6_addr);
        end.family = four ? 4 : 6, end.port = ntohs(in.sin6_port);
        memcpy(end.address, &in.sin6_addr.s6_addr[four ? 12 : 0], four ? 4 : 16);
    }
    return end;
}

}  // namespace

TcpEnd local_end(int tcp) { return end_of(tcp, getsockname); }

TcpEnd peer_end(int tcp) { return end_of(tcp, getpeername); }

bool ends_meet(int tcp) { return peer_end(tcp).same_host(local_end(tcp)); }

}  // namespace rgpu::net
