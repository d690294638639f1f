// SPDX-License-Identifier: Apache-2.0
// The two ends of a TCP connection, and whether they are on one host.
#pragma once

#include <cstdint>
#include <cstring>

namespace rgpu::net {

// One end as wire/shared_offer.h carries it: an address in network byte order. Family 0: the socket
// has no such end, and it equals no other.
struct TcpEnd {
    uint16_t family = 0, port = 0;  // 4 or 6; the port in host byte order
    uint8_t address[16] = {};

    bool same_host(const TcpEnd &other) const
    {
        return family && family == other.family && !memcmp(address, other.address, sizeof address);
    }
    bool operator==(const TcpEnd &other) const { return same_host(other) && port == other.port; }
};

// Any thread. Neither fails: an end that the kernel does not tell has family 0.
TcpEnd local_end(int tcp);
TcpEnd peer_end(int tcp);

// Whether both ends have the same address, as they have on one host and without a proxy on another.
bool ends_meet(int tcp);

}  // namespace rgpu::net
