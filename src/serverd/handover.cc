#include "serverd/handover.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>

namespace rgpu::serverd {
namespace {

// A message with room for one descriptor (unix(7), SCM_RIGHTS).
struct Message {
    iovec vector;
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr header{};

    explicit Message(uint64_t &digest) : vector{&digest, sizeof digest}
    {
        header.msg_iov = &vector;
        header.msg_iovlen = 1;
        header.msg_control = control;
        header.msg_controllen = sizeof control;
    }
};

}  // namespace

Result<std::pair<Fd, Fd>> open_channel()
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return error(ErrorKind::exhausted, "no pair of sockets: %s", strerror(errno));
    return std::pair(Fd(ends[0]), Fd(ends[1]));
}

Result<void> hand_over(int channel, int socket, uint64_t table_digest)
{
    Message message(table_digest);
    cmsghdr *rights = CMSG_FIRSTHDR(&message.header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof socket);
    memcpy(CMSG_DATA(rights), &socket, sizeof socket);
    ssize_t n;
    while ((n = sendmsg(channel, &message.header, MSG_NOSIGNAL | MSG_DONTWAIT)) < 0 && errno == EINTR) {
    }
    if (n != sizeof table_digest)
        return error(ErrorKind::disconnected, "the waiting worker took no client: %s", strerror(errno));
    return {};
}

std::optional<Visitor> take_over(int channel)
{
    Visitor visitor;
    Message message(visitor.table_digest);
    ssize_t n;
    while ((n = recvmsg(channel, &message.header, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR) {
    }
    cmsghdr *rights = CMSG_FIRSTHDR(&message.header);
    if (n != sizeof visitor.table_digest || !rights || rights->cmsg_type != SCM_RIGHTS ||
        rights->cmsg_len != CMSG_LEN(sizeof(int)))
        return std::nullopt;
    int socket = -1;
    memcpy(&socket, CMSG_DATA(rights), sizeof socket);
    visitor.socket.reset(socket);
    return visitor;
}

}  // namespace rgpu::serverd
