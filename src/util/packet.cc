// SPDX-License-Identifier: Apache-2.0
#include "util/packet.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace rgpu {
namespace {

// Room for the descriptors of one message, aligned as cmsg(3) asks.
union Control {
    cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int) * kMostPacketDescriptors)];
};

msghdr header_of(iovec &content)
{
    msghdr header{};
    header.msg_iov = &content;
    header.msg_iovlen = 1;
    return header;
}

// Whatever the kernel has installed becomes ours, and so is closed.
void take(msghdr &header, std::vector<Fd> &descriptors)
{
    for (cmsghdr *part = CMSG_FIRSTHDR(&header); part; part = CMSG_NXTHDR(&header, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
        int received[kMostPacketDescriptors];
        const size_t count =
            std::min((part->cmsg_len - CMSG_LEN(0)) / sizeof(int), kMostPacketDescriptors);
        memcpy(received, CMSG_DATA(part), count * sizeof(int));
        for (size_t i = 0; i < count; ++i) descriptors.emplace_back(received[i]);
    }
}

}  // namespace

int send_packet(int socket, const void *bytes, size_t size, std::span<const int> descriptors,
                int flags, const sockaddr_un *to)
{
    if (descriptors.size() > kMostPacketDescriptors) return EINVAL;
    iovec content{const_cast<void *>(bytes), size};
    msghdr header = header_of(content);
    if (to) {
        header.msg_name = const_cast<sockaddr_un *>(to);
        header.msg_namelen = sizeof *to;
    }
    Control control;
    if (!descriptors.empty()) {
        memset(&control, 0, sizeof control);
        header.msg_control = control.bytes;
        header.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
        cmsghdr *rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(descriptors.size_bytes());
        memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size_bytes());
    }
    ssize_t n;
    while ((n = sendmsg(socket, &header, flags | MSG_NOSIGNAL)) < 0 && errno == EINTR) {}
    return n == static_cast<ssize_t>(size) ? 0 : n < 0 ? errno : EMSGSIZE;
}

ssize_t receive_packet(int socket, void *bytes, size_t size, std::vector<Fd> &descriptors,
                       size_t most, int flags)
{
    std::vector<Fd> received;
    received.reserve(kMostPacketDescriptors);  // before any is there that a failure would lose
    iovec content{bytes, size};
    msghdr header = header_of(content);
    Control control;
    header.msg_control = control.bytes;
    header.msg_controllen = sizeof control.bytes;
    ssize_t n;
    while ((n = recvmsg(socket, &header, flags | MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR) {}
    if (n < 0) return -1;
    take(header, received);
    if (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC) || received.size() > most) {
        errno = EMSGSIZE;
        return -1;
    }
    for (Fd &descriptor : received) descriptors.push_back(std::move(descriptor));
    return n;
}

}  // namespace rgpu
