#include "share/protocol.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace rgpu::share {

int send_message(int socket, const void *bytes, size_t size, int descriptor)
{
    iovec content{const_cast<void *>(bytes), size};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof descriptor)] = {};
    msghdr message{};
    message.msg_iov = &content;
    message.msg_iovlen = 1;
    if (descriptor >= 0) {
        message.msg_control = control;
        message.msg_controllen = sizeof control;
        cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(sizeof descriptor);
        memcpy(CMSG_DATA(head), &descriptor, sizeof descriptor);
    }
    ssize_t n;
    while ((n = sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL)) < 0 && errno == EINTR) {}
    return n == static_cast<ssize_t>(size) ? 0 : n < 0 ? errno : EMSGSIZE;
}

ssize_t receive_message(int socket, void *bytes, size_t size, Fd *descriptor)
{
    int given = -1;
    iovec content{bytes, size};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof given)] = {};
    msghdr message{};
    message.msg_iov = &content;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    ssize_t n;
    while ((n = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR) {
    }
    if (const cmsghdr *head = n > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
        head && head->cmsg_type == SCM_RIGHTS && head->cmsg_len == CMSG_LEN(sizeof given)) {
        memcpy(&given, CMSG_DATA(head), sizeof given);
        Fd taken(given);
        if (descriptor) *descriptor = std::move(taken);
    }
    if (n > 0 && message.msg_flags & MSG_TRUNC) {
        errno = EMSGSIZE;
        return -1;
    }
    return n;
}

}  // namespace rgpu::share
