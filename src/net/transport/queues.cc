// SPDX-License-Identifier: Apache-2.0
#include "net/transport/queues.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace rgpu::net {

namespace {

// The kernel wakes the sender at half of it.
constexpr int kUnsent = 512 << 10;

}  // namespace

void bound_queues(int fd)
{
    setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kUnsent, sizeof kUnsent);
}

}  // namespace rgpu::net
