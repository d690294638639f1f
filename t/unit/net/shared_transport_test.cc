// SPDX-License-Identifier: Apache-2.0
// Two ends in one process: sleeping and waking, a peer that goes, and how the two come to share
// memory.
#include "net/transport/shared_transport.h"
#include "net/transport/tcp_ends.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "net/handshake/shared_offer.h"
#include "socket_pair.h"
#include "wire/frame.h"

using namespace rgpu;
using namespace rgpu::net;
using namespace std::chrono_literals;

namespace {

struct Ends {
    std::unique_ptr<Transport> client, server;

    Ends()
    {
        auto memory = make_shared_memory();
        cr_assert(memory.has_value());
        auto [data, their_data] = pair_of_sockets();
        auto [room, their_room] = pair_of_sockets();
        client = std::move(SharedTransport::open(SharedTransport::Side::client, memory->get(),
                                                 std::move(data), std::move(room), Fd())
                               .value());
        server = std::move(SharedTransport::open(SharedTransport::Side::server, memory->get(),
                                                 std::move(their_data), std::move(their_room), Fd())
                               .value());
    }
};

ssize_t send(Transport &t, const void *data, size_t bytes, int timeout = -1)
{
    const iovec part{const_cast<void *>(data), bytes};
    return t.send(&part, 1, timeout);
}

bool refused(int memory, Fd data, Fd room)
{
    auto r = SharedTransport::open(SharedTransport::Side::server, memory, std::move(data),
                                   std::move(room), Fd());
    return !r && r.error().kind == ErrorKind::invalid;
}

Fd memory_file(size_t bytes, int seals, unsigned flags = 0)
{
    Fd fd(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags));
    cr_assert(fd && ftruncate(fd.get(), static_cast<off_t>(bytes)) == 0 &&
              (!seals || fcntl(fd.get(), F_ADD_SEALS, seals) == 0));
    return fd;
}

// Both ends of a TCP connection on loopback.
std::pair<Fd, Fd> tcp()
{
    auto listening = listen("127.0.0.1:0");
    cr_assert(listening.has_value());
    auto client =
        connect("127.0.0.1:" + std::to_string(local_port(listening->get())), Clock::now() + 10s);
    cr_assert(client.has_value());
    return {std::move(*client), Fd(accept(listening->get(), nullptr, nullptr))};
}

// As the worker does: reads the first frame, takes the offer, answers. `spoil` may change the
// offer.
template <class Spoil> std::unique_ptr<Transport> serve(int fd, Spoil &&spoil)
{
    wire::FrameHeader h;
    wire::SharedOffer offer;
    cr_assert(receive_all(fd, &h, sizeof h, Clock::now() + 10s).has_value() &&
              h.bytes == sizeof offer && h.type == wire::kSharedOfferCall);
    cr_assert(receive_all(fd, &offer, sizeof offer, Clock::now() + 10s).has_value());
    spoil(offer);
    auto taken = take_offer(fd, offer);
    wire::FrameHeader answer;
    answer.type = static_cast<uint16_t>(wire::ServerFrame::reply);
    answer.flags = wire::kLast;
    answer.value = taken ? 0 : 801;
    cr_assert(send_all(fd, &answer, sizeof answer, Clock::now() + 10s).has_value());
    return taken ? std::move(*taken) : nullptr;
}

}  // namespace

Test(shared_transport, who_sleeps_for_input_is_woken, .timeout = 60)
{
    Ends e;
    std::thread echo([&] {
        for (char byte; e.server->receive(&byte, 1, -1) == 1;) send(*e.server, &byte, 1);
    });
    for (int i = 0; i < 2000; i++) {
        char out = static_cast<char>(i), in = 0;
        cr_assert_eq(send(*e.client, &out, 1), 1);
        cr_assert_eq(e.client->receive(&in, 1, -1), 1);
        cr_assert_eq(in, out);
    }
    e.client->shutdown();
    echo.join();
}

Test(shared_transport, who_sleeps_for_room_is_woken, .timeout = 60)
{
    Ends e;
    constexpr size_t kTotal = 256 << 20;
    std::thread sender([&] {
        std::vector<uint8_t> data(3 << 20, 5);
        for (size_t sent = 0; sent < kTotal;) {
            const ssize_t n = send(*e.client, data.data(), std::min(data.size(), kTotal - sent));
            if (n <= 0) break;
            sent += static_cast<size_t>(n);
        }
    });
    std::vector<uint8_t> in(1 << 20);
    size_t got = 0;
    while (got < kTotal) {
        const ssize_t n = e.server->receive(in.data(), in.size(), 10000);
        cr_assert(n > 0, "after %zu bytes: %s", got, n ? strerror(errno) : "closed");
        got += static_cast<size_t>(n);
    }
    sender.join();
}

Test(shared_transport, several_threads_sleep_for_the_same_input, .timeout = 60)
{
    Ends e;
    for (int i = 0; i < 200; i++) {
        std::thread waiter(
            [&] { cr_assert_eq(e.client->wait(Transport::kData, 20000), Transport::kData); });
        std::thread other(
            [&] { cr_assert_eq(e.client->wait(Transport::kData, 20000), Transport::kData); });
        send(*e.server, &i, sizeof i);
        waiter.join(), other.join();
        int in;
        cr_assert_eq(e.client->receive(&in, sizeof in, 0), sizeof in);
    }
}

Test(shared_transport, what_the_peer_sent_last_comes_before_its_end, .timeout = 60)
{
    Ends e;
    send(*e.server, "end", 3);
    e.server.reset();
    char in[10];
    cr_assert_eq(e.client->receive(in, sizeof in, -1), 3);
    cr_expect_eq(e.client->receive(in, sizeof in, -1), 0);
    cr_expect_eq(send(*e.client, "x", 1), -1);
    cr_expect_eq(errno, EPIPE);
}

Test(shared_transport, a_peer_that_goes_ends_every_wait, .timeout = 60)
{
    Ends e;
    std::vector<uint8_t> much(16 << 20);
    while (send(*e.client, much.data(), much.size(), 0) > 0) {}
    std::thread reader([&] {
        char in;
        cr_expect_eq(e.client->receive(&in, 1, -1), 0);
    });
    std::thread writer([&] {
        cr_expect_eq(send(*e.client, much.data(), much.size(), -1), -1);
        cr_expect_eq(errno, EPIPE);
    });
    e.server.reset();
    reader.join(), writer.join();
}

// Else a sender that should read meanwhile goes round without ever doing so.
Test(shared_transport, room_that_is_told_can_be_used, .timeout = 60)
{
    Ends e;
    std::vector<uint8_t> large(SharedRing::kPlaceBytes, 1);
    const uint8_t small[24] = {};
    cr_assert_eq(send(*e.client, large.data(), large.size()), static_cast<ssize_t>(large.size()));
    for (size_t got = 0; got < large.size();)
        got += static_cast<size_t>(e.server->receive(large.data(), large.size(), -1));
    while (send(*e.client, small, sizeof small, 0) > 0) {}
    cr_assert_eq(errno, EAGAIN);
    cr_assert_eq(e.client->wait(Transport::kRoom, 0), 0u,
                 "a place has come back, but there is no room to say so");
    uint8_t in[SharedRing::kRingBytes / 2];
    cr_assert_gt(e.server->receive(in, sizeof in, -1), 0);
    cr_assert_eq(e.client->wait(Transport::kRoom, -1), static_cast<unsigned>(Transport::kRoom));
    cr_assert_gt(send(*e.client, small, sizeof small, 0), 0);
}

Test(shared_transport, a_peer_that_goes_keeps_no_place, .timeout = 60)
{
    Ends e;
    size_t bytes = 0;
    while (void *place = e.server->reserve(bytes))
        cr_assert_eq(send(*e.server, place, bytes), static_cast<ssize_t>(bytes));
    cr_assert_eq(e.server->places_under_way(), SharedRing::kPlaces);
    std::thread waits([&] {
        while (!e.server->reserve(bytes) && e.server->places_under_way())
            e.server->wait(Transport::kPlace, -1);
    });
    e.client.reset();
    waits.join();
}

Test(shared_transport, time_runs_out)
{
    Ends e;
    char in;
    cr_expect_eq(e.client->receive(&in, 1, 20), -1);
    cr_expect_eq(errno, EAGAIN);
    cr_expect_eq(e.client->wait(Transport::kData, 20), 0u);
    cr_expect_eq(e.client->wait(Transport::kRoom | Transport::kData, 20), Transport::kRoom);
}

Test(shared_transport, a_descriptor_that_is_not_ours_any_more_is_not_used)
{
    auto memory = make_shared_memory();
    auto [data, their_data] = pair_of_sockets();
    auto [room, their_room] = pair_of_sockets();
    const int number = data.get();
    auto client = SharedTransport::open(SharedTransport::Side::client, memory->get(),
                                        std::move(data), std::move(room), Fd());
    cr_assert(client.has_value());
    Fd file(open("/dev/null", O_RDWR | O_CLOEXEC));
    cr_assert_eq(dup2(file.get(), number), number);
    char in;
    cr_expect_eq((*client)->receive(&in, 1, -1), -1);
    cr_expect_eq(errno, EBADF);
    (*client).reset();
    cr_expect(fcntl(number, F_GETFD) >= 0, "nor closed");
}

Test(shared_transport, memory_that_can_change_its_size_is_refused)
{
    constexpr int kBoth = F_SEAL_SHRINK | F_SEAL_GROW;
    auto sockets = [] { return std::move(pair_of_sockets().first); };
    cr_expect(!refused(memory_file(sizeof(SharedMemory), kBoth).get(), sockets(), sockets()));
    cr_expect(refused(memory_file(sizeof(SharedMemory), 0).get(), sockets(), sockets()));
    cr_expect(refused(memory_file(sizeof(SharedMemory), F_SEAL_GROW).get(), sockets(), sockets()));
    cr_expect(refused(memory_file(sizeof(SharedMemory) - 4096, kBoth).get(), sockets(), sockets()));
    cr_expect(refused(memory_file(2 * sizeof(SharedMemory), kBoth).get(), sockets(), sockets()));
    cr_expect(refused(Fd(open("/dev/zero", O_RDWR)).get(), sockets(), sockets()));
    cr_expect(refused(-1, sockets(), sockets()));
    cr_expect(refused(make_shared_memory()->get(), Fd(open("/dev/null", O_RDWR)), sockets()),
              "bells are sockets");
    cr_expect(refused(make_shared_memory()->get(), sockets(), Fd()));
}

Test(shared_offer, two_that_see_the_same_connection_share_memory, .timeout = 60)
{
    auto [client, server] = tcp();
    cr_expect(ends_meet(client.get()) && ends_meet(server.get()));
    std::unique_ptr<Transport> theirs;
    std::thread worker([&, fd = server.get()] { theirs = serve(fd, [](wire::SharedOffer &) {}); });
    auto offer = SharedOffer::send(client.get(), Clock::now() + 10s);
    cr_assert(offer.has_value());
    auto mine = offer->settle(client, Clock::now() + 20s);
    worker.join();
    cr_assert(mine && *mine && theirs);
    send(**mine, "hello", 5);
    char in[5];
    cr_assert_eq(theirs->receive(in, 5, -1), 5);
    cr_expect_arr_eq(in, "hello", 5);
}

Test(shared_offer, whoever_sees_another_connection_or_does_not_know_the_words_declines,
     .timeout = 60)
{
    for (int what = 0; what < 4; what++) {
        auto [client, server] = tcp();
        std::unique_ptr<Transport> theirs;
        std::thread worker([&, fd = server.get()] {
            theirs = serve(fd, [&](wire::SharedOffer &o) {
                what == 0   ? o.port++
                : what == 1 ? o.name[3]++
                : what == 2 ? o.worker[0]++
                            : o.client[31]++;
            });
        });
        auto offer = SharedOffer::send(client.get(), Clock::now() + 10s);
        cr_assert(offer.has_value());
        auto mine = offer->settle(client, Clock::now() + 20s);
        worker.join();
        cr_expect(mine && !*mine && !theirs, "case %d", what);
        // And the connection is as it was.
        cr_assert(send_all(client.get(), "go on", 5, Clock::now() + 10s).has_value());
        char in[5];
        cr_assert(receive_all(server.get(), in, 5, Clock::now() + 10s).has_value());
    }
}

// Names of such sockets are public: a stranger may come first, and say nothing.
Test(shared_offer, strangers_at_the_socket_change_nothing, .timeout = 60)
{
    auto [client, server] = tcp();
    std::unique_ptr<Transport> theirs;
    std::vector<Fd> strangers;  // that stay, and say nothing
    std::thread worker([&, fd = server.get()] {
        theirs = serve(fd, [&](wire::SharedOffer &o) {
            sockaddr_un address{};
            const std::string name = "rgpu-" + to_hex(o.name, sizeof o.name);
            address.sun_family = AF_UNIX;
            memcpy(address.sun_path + 1, name.data(), name.size());
            for (int i = 0; i < 20; i++) {
                Fd &s = strangers.emplace_back(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
                cr_expect_eq(::connect(s.get(), reinterpret_cast<sockaddr *>(&address),
                                       static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 +
                                                              name.size())),
                             0);
            }
            wire::SharedOffer guess = o;
            guess.worker = {};
            auto r = take_offer(fd, guess);
            cr_expect(!r.has_value());
        });
    });
    auto offer = SharedOffer::send(client.get(), Clock::now() + 10s);
    auto mine = offer->settle(client, Clock::now() + 20s);
    worker.join();
    cr_expect(mine && *mine && theirs);
}
