// SPDX-License-Identifier: Apache-2.0
#include "share/protocol.h"

#include <sys/socket.h>

#include "util/packet.h"

namespace rgpu::share {

int send_message(int socket, const void *bytes, size_t size, int descriptor)
{
    const std::span<const int> given(&descriptor, descriptor >= 0 ? 1 : 0);
    return send_packet(socket, bytes, size, given, MSG_DONTWAIT);
}

ssize_t receive_message(int socket, void *bytes, size_t size, Fd *descriptor)
{
    std::vector<Fd> received;
    const ssize_t n = receive_packet(socket, bytes, size, received, 1, MSG_DONTWAIT);
    if (descriptor && !received.empty()) *descriptor = std::move(received[0]);
    return n;
}

}  // namespace rgpu::share
