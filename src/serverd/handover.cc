#include "serverd/handover.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <charconv>
#include <cinttypes>
#include <cstdio>
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

constexpr char kGetReady = 0;  // tells by its length

Result<void> sent(int channel, const msghdr &header)
{
    ssize_t n;
    while ((n = sendmsg(channel, &header, MSG_NOSIGNAL | MSG_DONTWAIT)) < 0 && errno == EINTR) {}
    if (n != static_cast<ssize_t>(header.msg_iov->iov_len))
        return error(ErrorKind::disconnected, "the waiting worker took nothing: %s",
                     strerror(errno));
    return {};
}

}  // namespace

Result<std::pair<Fd, Fd>> open_channel()
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return error(ErrorKind::exhausted, "no pair of sockets: %s", strerror(errno));
    return std::pair(Fd(ends[0]), Fd(ends[1]));
}

Result<void> get_ready(int channel)
{
    char word = kGetReady;
    iovec vector{&word, sizeof word};
    msghdr header{};
    header.msg_iov = &vector;
    header.msg_iovlen = 1;
    return sent(channel, header);
}

Result<void> hand_over(int channel, int socket, uint64_t table_digest)
{
    Message message(table_digest);
    cmsghdr *rights = CMSG_FIRSTHDR(&message.header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof socket);
    memcpy(CMSG_DATA(rights), &socket, sizeof socket);
    return sent(channel, message.header);
}

std::string format_worker_number(uint64_t number)
{
    char text[17];
    snprintf(text, sizeof text, "%016" PRIx64, number);
    return text;
}

uint64_t parse_worker_number(const std::string &text)
{
    uint64_t number = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
    return text.size() == 16 && failure == std::errc() && end == text.data() + text.size() ? number
                                                                                           : 0;
}

// The worker says nothing: it closes its end.
void wait_taken(int channel, Milliseconds most)
{
    pollfd look{channel, POLLIN, 0};
    (void)poll(&look, 1, static_cast<int>(most.count()));
}

std::optional<Visitor> take_over(int channel, const std::function<void()> &ready)
{
    for (;;) {
        Visitor visitor;
        Message message(visitor.table_digest);
        const ssize_t n = recvmsg(channel, &message.header, MSG_CMSG_CLOEXEC);
        if (n < 0 && errno == EINTR) continue;
        cmsghdr *rights = CMSG_FIRSTHDR(&message.header);
        if (n == sizeof kGetReady && !rights) {
            ready();
            continue;
        }
        if (n != sizeof visitor.table_digest || !rights || rights->cmsg_type != SCM_RIGHTS ||
            rights->cmsg_len != CMSG_LEN(sizeof(int)))
            return std::nullopt;
        int socket = -1;
        memcpy(&socket, CMSG_DATA(rights), sizeof socket);
        visitor.socket.reset(socket);
        return visitor;
    }
}

}  // namespace rgpu::serverd
