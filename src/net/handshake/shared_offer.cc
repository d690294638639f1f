// SPDX-License-Identifier: Apache-2.0
#include "net/handshake/shared_offer.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "net/transport/shared_transport.h"
#include "net/transport/tcp_ends.h"
#include "util/packet.h"
#include "wire/frame.h"

namespace rgpu::net {

namespace {

using namespace std::chrono_literals;

// For what the other side does at once if it is who it should be.
constexpr auto kPatience = 5s;
// Strangers at the client's socket that say nothing: of more, the oldest go.
constexpr size_t kVisitors = 8;
constexpr int kWaiting = 64;  // that the client has not looked at yet

struct Name {
    sockaddr_un address{};
    socklen_t bytes;

    explicit Name(const uint8_t (&random)[16])
    {
        const std::string text = "rgpu-" + to_hex(random, sizeof random);
        address.sun_family = AF_UNIX;
        memcpy(address.sun_path + 1, text.data(), text.size());  // behind a NUL: abstract
        bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
    }
    const sockaddr *get() const { return reinterpret_cast<const sockaddr *>(&address); }
};

constexpr size_t kHandedOver = 2;  // descriptors: the memory, the bell for room

}  // namespace

// --- the client

Result<SharedOffer> SharedOffer::send(int tcp, Deadline deadline)
{
    wire::SharedOffer offer;
    const TcpEnd mine = local_end(tcp);
    offer.family = mine.family, offer.port = mine.port;
    memcpy(offer.address, mine.address, sizeof offer.address);
    struct Secrets {
        uint8_t name[16];
        Digest worker, client;
    } random;
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        return error(ErrorKind::internal, "no random numbers");
    memcpy(offer.name, random.name, sizeof offer.name);
    offer.worker = random.worker, offer.client = random.client;

    auto memory = make_shared_memory();
    if (!memory) return std::move(memory).error();
    const Name name(offer.name);
    Fd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!listener || bind(listener.get(), name.get(), name.bytes) != 0 ||
        ::listen(listener.get(), kWaiting) != 0)
        return error(ErrorKind::exhausted, "no Unix socket: %s", strerror(errno));

    struct {
        wire::FrameHeader header;
        wire::SharedOffer offer;
    } frame;
    static_assert(sizeof frame == sizeof(wire::FrameHeader) + sizeof(wire::SharedOffer));
    frame.header.bytes = sizeof offer;
    frame.header.type = wire::kSharedOfferCall;
    frame.header.flags = wire::kWantsReply;
    frame.offer = offer;
    if (auto r = send_all(tcp, &frame, sizeof frame, deadline); !r) return std::move(r).error();
    return SharedOffer(std::move(listener), std::move(*memory), offer);
}

// Null: this is not the worker.
std::unique_ptr<Transport> SharedOffer::hand_over(int visitor, int tcp)
{
    Digest word;
    int pair[2];
    if (recv(visitor, word.data(), word.size(), MSG_DONTWAIT) !=
            static_cast<ssize_t>(word.size()) ||
        !equal_in_constant_time(word.data(), offer_.worker.data(), word.size()) ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return nullptr;
    Fd room(pair[0]), theirs(pair[1]);
    auto transport = SharedTransport::open(SharedTransport::Side::client, memory_.get(),
                                           Fd(fcntl(visitor, F_DUPFD_CLOEXEC, 0)), std::move(room),
                                           Fd(fcntl(tcp, F_DUPFD_CLOEXEC, 0)));
    if (!transport) return nullptr;
    const int handed[kHandedOver] = {memory_.get(), theirs.get()};
    if (send_packet(visitor, offer_.client.data(), offer_.client.size(), handed)) return nullptr;
    return std::move(*transport);
}

Result<std::unique_ptr<Transport>> SharedOffer::settle(Fd &tcp, Deadline deadline)
{
    std::unique_ptr<Transport> transport;
    std::deque<Fd> visitors;
    for (;;) {
        std::vector<pollfd> looks = {{tcp.get(), POLLIN, 0}};
        if (!transport) {
            looks.push_back({listener_.get(), POLLIN, 0});
            for (const Fd &visitor : visitors) looks.push_back({visitor.get(), POLLIN, 0});
        }
        auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
        if (left <= 0) return error(ErrorKind::unavailable, "no answer in time");
        if (poll(looks.data(), looks.size(), static_cast<int>(left)) <= 0) continue;
        // From the back: those that are no worker go.
        for (size_t i = looks.size(); !transport && i-- > 2;)
            if (looks[i].revents && !(transport = hand_over(looks[i].fd, tcp.get())))
                visitors.erase(visitors.begin() + static_cast<ptrdiff_t>(i - 2));
        if (!transport && looks[1].revents) {
            if (visitors.size() == kVisitors) visitors.pop_front();
            if (Fd visitor(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)); visitor)
                visitors.push_back(std::move(visitor));
        }
        if (looks[0].revents) break;
    }
    wire::FrameHeader answer;
    if (auto r = receive_all(tcp.get(), &answer, sizeof answer, deadline); !r)
        return std::move(r).error();
    if (answer.type != static_cast<uint16_t>(wire::ServerFrame::reply) || answer.sequence ||
        answer.bytes || (!answer.value && !transport))
        return error(ErrorKind::invalid, "unexpected answer to an offer of shared memory");
    if (answer.value) return std::unique_ptr<Transport>();
    tcp.reset();
    return transport;
}

// --- the worker

Result<std::unique_ptr<Transport>> take_offer(int tcp, const wire::SharedOffer &offer)
{
    TcpEnd theirs;
    theirs.family = offer.family, theirs.port = offer.port;
    memcpy(theirs.address, offer.address, sizeof theirs.address);
    if (!(theirs == peer_end(tcp)))
        return error(ErrorKind::unsupported, "the client is behind a proxy");

    const Name name(offer.name);
    Fd bell(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    // Where strangers stand in the way it waits for its turn.
    const timeval patience = {std::chrono::seconds(kPatience).count(), 0};
    if (!bell || setsockopt(bell.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) != 0 ||
        ::connect(bell.get(), name.get(), name.bytes) != 0 ||
        fcntl(bell.get(), F_SETFL, O_NONBLOCK) != 0)
        return error(ErrorKind::unavailable, "the client cannot be met: %s", strerror(errno));
    const auto deadline = Clock::now() + kPatience;
    if (auto r = send_all(bell.get(), offer.worker.data(), offer.worker.size(), deadline); !r)
        return std::move(r).error();

    Digest word;
    std::vector<Fd> handed;
    pollfd look{bell.get(), POLLIN, 0};
    poll(&look, 1, static_cast<int>(std::chrono::milliseconds(kPatience).count()));
    if (receive_packet(bell.get(), word.data(), word.size(), handed, kHandedOver, MSG_DONTWAIT) !=
            static_cast<ssize_t>(word.size()) ||
        handed.size() != kHandedOver ||
        !equal_in_constant_time(word.data(), offer.client.data(), word.size()))
        return error(ErrorKind::invalid, "whoever is there is not the client");
    return SharedTransport::open(SharedTransport::Side::server, handed[0].get(), std::move(bell),
                                 std::move(handed[1]), Fd());
}

}  // namespace rgpu::net
