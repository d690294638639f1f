// SPDX-License-Identifier: Apache-2.0
#include "serverd/handover.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <span>
#include <vector>

#include "util/packet.h"

namespace rgpu::serverd {
namespace {

constexpr char kGetReady = 0;  // tells by its length

// What is sent with a client's socket: without a key, the beginning alone.
struct Message {
    uint64_t table_digest = 0;
    Digest key{};

    static constexpr size_t kWithoutKey = sizeof(uint64_t);
};
static_assert(sizeof(Message) == Message::kWithoutKey + sizeof(Digest));

Result<void> sent(int channel, const void *bytes, size_t size, std::span<const int> descriptors)
{
    const int failure = send_packet(channel, bytes, size, descriptors, MSG_DONTWAIT);
    if (failure)
        return error(ErrorKind::disconnected, "the waiting worker took nothing: %s",
                     strerror(failure));
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

Result<void> get_ready(int channel) { return sent(channel, &kGetReady, sizeof kGetReady, {}); }

Result<void> hand_over(int channel, int socket, const Introduction &client)
{
    const Message message{client.table_digest, client.key.value_or(Digest{})};
    return sent(channel, &message, client.key ? sizeof message : Message::kWithoutKey,
                {&socket, 1});
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
        Message message;
        std::vector<Fd> given;
        const ssize_t n = receive_packet(channel, &message, sizeof message, given, 1);
        if (n == sizeof kGetReady && given.empty()) {
            ready();
            continue;
        }
        const bool keyed = n == static_cast<ssize_t>(sizeof message);
        if ((!keyed && n != static_cast<ssize_t>(Message::kWithoutKey)) || given.empty())
            return std::nullopt;
        Visitor visitor;
        visitor.socket = std::move(given.front());
        visitor.client.table_digest = message.table_digest;
        if (keyed) visitor.client.key = message.key;
        return visitor;
    }
}

}  // namespace rgpu::serverd
