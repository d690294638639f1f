// SPDX-License-Identifier: Apache-2.0
// Two ends in one process, over UCX's TCP on loopback: sleeping and waking, both directions full, a
// peer that goes, and how the two come to use it.
#include "net/ucx/ucx_transport.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "net/ucx/ucx_offer.h"
#include "socket_pair.h"
#include "wire/frame.h"

using namespace rgpu;
using namespace rgpu::net;
using namespace std::chrono_literals;

namespace {

constexpr uint64_t kWord = 0x1234567890abcdef;

std::unique_ptr<UcxTransport> opened()
{
    setenv("RGPU_UCX_TLS", "tcp", 0);
    setenv("RGPU_UCX_NET_DEVICES", "lo", 0);
    auto t = UcxTransport::open();
    if (!t && strstr(t.error().text.c_str(), "built without UCX"))
        cr_skip_test("%s", t.error().text.c_str());
    cr_assert(t.has_value(), "%s", t.error().text.c_str());
    return std::move(*t);
}

struct Ends {
    std::unique_ptr<UcxTransport> client = opened(), server = opened();

    Ends()
    {
        auto [mine, theirs] = pair_of_sockets();
        cr_assert(server->connect(client->address(), kWord).has_value());
        cr_assert(client->connect(server->address(), kWord).has_value());
        std::thread answers([&] { server->answer(theirs.get()); });
        const bool met = client->greet(mine.get(), Clock::now() + 30s);
        cr_assert_eq(send_all(mine.get(), "x", 1, Clock::now() + 10s).has_value(), true);
        answers.join();
        char byte;
        cr_assert(recv(theirs.get(), &byte, 1, 0) == 1);
        cr_assert(met);
        client->keep(std::move(mine));
        server->keep(std::move(theirs));
    }
};

ssize_t send(Transport &t, const void *data, size_t bytes, int timeout = -1)
{
    const iovec part{const_cast<void *>(data), bytes};
    return t.send(&part, 1, timeout);
}

void send_whole(Transport &t, const uint8_t *data, size_t bytes)
{
    for (size_t sent = 0; sent < bytes;) {
        const ssize_t n = send(t, data + sent, bytes - sent);
        cr_assert(n > 0, "after %zu bytes: %s", sent, strerror(errno));
        sent += static_cast<size_t>(n);
    }
}

void receive_whole(Transport &t, uint8_t *to, size_t bytes)
{
    for (size_t got = 0; got < bytes;) {
        const ssize_t n = t.receive(to + got, bytes - got, 60000);
        cr_assert(n > 0, "after %zu bytes: %s", got, n ? strerror(errno) : "closed");
        got += static_cast<size_t>(n);
    }
}

std::vector<uint8_t> pattern(size_t bytes, unsigned seed)
{
    std::vector<uint8_t> v(bytes);
    for (size_t i = 0; i < bytes; i++) v[i] = static_cast<uint8_t>((i * 2654435761u + seed) >> 13);
    return v;
}

}  // namespace

Test(ucx_transport, who_sleeps_for_input_is_woken, .timeout = 120)
{
    Ends e;
    std::thread echo([&] {
        for (char byte; e.server->receive(&byte, 1, -1) == 1;) send(*e.server, &byte, 1);
    });
    for (int i = 0; i < 1000; i++) {
        char out = static_cast<char>(i), in = 0;
        cr_assert_eq(send(*e.client, &out, 1), 1);
        cr_assert_eq(e.client->receive(&in, 1, -1), 1);
        cr_assert_eq(in, out);
    }
    e.client->shutdown();
    echo.join();
}

// Messages of every kind, in parts of every length, into buffers that fit none of them.
Test(ucx_transport, the_stream_arrives_as_it_was_sent, .timeout = 120)
{
    Ends e;
    const std::vector<uint8_t> data = pattern(24 << 20, 1);
    std::thread sender([&] {
        const size_t lengths[] = {
            1,      16,      100,     4096, (32 << 10) - 1, 32 << 10, (64 << 10) - 1, 64 << 10,
            300000, 1 << 20, 3 << 20, 7};
        size_t at = 0;
        for (size_t i = 0; at < data.size(); i++) {
            const size_t a = std::min(lengths[i % 12], data.size() - at),
                         b = std::min(lengths[i * 5 % 12], data.size() - at - a);
            iovec parts[2] = {{const_cast<uint8_t *>(&data[at]), a},
                              {const_cast<uint8_t *>(data.data() + at + a), b}};
            for (size_t left = a + b; left;) {
                const ssize_t n = e.client->send(parts, 2, -1);
                cr_assert(n > 0);
                size_t gone = static_cast<size_t>(n);
                left -= gone;
                for (iovec &part : parts) {
                    const size_t took = std::min(part.iov_len, gone);
                    part.iov_base = static_cast<char *>(part.iov_base) + took, part.iov_len -= took,
                    gone -= took;
                }
            }
            at += a + b;
        }
    });
    std::vector<uint8_t> in(data.size());
    const size_t rooms[] = {3, 256 << 10, 16, 1 << 20, 70000};
    for (size_t got = 0, i = 0; got < in.size(); i++) {
        const ssize_t n =
            e.server->receive(&in[got], std::min(rooms[i % 5], in.size() - got), 60000);
        cr_assert(n > 0, "after %zu bytes: %s", got, strerror(errno));
        got += static_cast<size_t>(n);
    }
    sender.join();
    cr_assert(in == data);
}

Test(ucx_transport, large_streams_cross, .timeout = 120)
{
    Ends e;
    const auto up = pattern(32 << 20, 2), down = pattern(32 << 20, 3);
    std::thread server([&] {
        std::thread out([&] { send_whole(*e.server, down.data(), down.size()); });
        std::vector<uint8_t> in(up.size());
        receive_whole(*e.server, in.data(), in.size());
        out.join();
        cr_assert(in == up);
    });
    std::thread out([&] { send_whole(*e.client, up.data(), up.size()); });
    std::vector<uint8_t> in(down.size());
    receive_whole(*e.client, in.data(), in.size());
    out.join(), server.join();
    cr_assert(in == down);
}

// As the client does: who finds no room reads, and goes on with the same bytes.
Test(ucx_transport, nobody_gets_further_ahead_than_the_window, .timeout = 120)
{
    Ends e;
    const auto data = pattern(16 << 20, 4);
    size_t sent = 0;
    // The receiver looks at nothing: what is sent then is bounded.
    for (int in_vain = 0; in_vain < 20 && sent < data.size();) {
        const ssize_t n =
            send(*e.client, &data[sent], std::min<size_t>(1000, data.size() - sent), 0);
        if (n > 0) {
            sent += static_cast<size_t>(n), in_vain = 0;
            continue;
        }
        cr_assert_eq(errno, EAGAIN);
        e.client->wait(Transport::kRoom, 50), in_vain++;
    }
    cr_assert(sent <= 64 * 1000, "%zu bytes that nobody took", sent);
    std::vector<uint8_t> in(data.size());
    std::thread sender([&] { send_whole(*e.client, &data[sent], data.size() - sent); });
    receive_whole(*e.server, in.data(), in.size());
    sender.join();
    cr_assert(in == data);
}

Test(ucx_transport, several_threads_sleep_for_the_same_input, .timeout = 120)
{
    Ends e;
    for (int i = 0; i < 100; i++) {
        std::thread waiter([&] {
            while (!e.client->wait(Transport::kData, 60000)) {}
        });
        std::thread other([&] {
            while (!e.client->wait(Transport::kData, 60000)) {}
        });
        send(*e.server, &i, sizeof i);
        waiter.join(), other.join();
        int in;
        cr_assert_eq(e.client->receive(&in, sizeof in, 0), sizeof in);
    }
}

Test(ucx_transport, what_the_peer_sent_last_comes_before_its_end, .timeout = 120)
{
    Ends e;
    send(*e.server, "end", 3);
    e.server.reset();
    char in[10];
    cr_assert_eq(e.client->receive(in, sizeof in, 60000), 3);
    // By which of the two connections it is known first is chance.
    const ssize_t n = e.client->receive(in, sizeof in, 60000);
    cr_expect(n == 0 || (n < 0 && errno == ECONNRESET), "%s", strerror(errno));
    cr_expect_eq(send(*e.client, "x", 1), -1);
    cr_expect_eq(errno, EPIPE);
}

Test(ucx_transport, a_peer_that_goes_ends_every_wait, .timeout = 120)
{
    Ends e;
    const std::vector<uint8_t> much(16 << 20);
    std::thread reader([&] {
        char in;
        cr_expect(e.client->receive(&in, 1, -1) <= 0);
    });
    std::thread writer([&] {
        while (send(*e.client, much.data(), much.size(), -1) > 0) {}
        cr_expect(errno == EPIPE, "%s", strerror(errno));
    });
    while (!e.server->wait(Transport::kData, 1000)) {}
    e.server.reset();
    reader.join(), writer.join();
}

// In the middle of what is announced and fetched: the process that has it is gone.
Test(ucx_transport, a_process_that_is_killed_ends_the_fetch, .timeout = 120)
{
    // The child opens a UCX of its own, so this process must not have one yet.
    const pid_t asks = fork();
    if (!asks) {
        auto t = UcxTransport::open();
        _exit(!t && strstr(t.error().text.c_str(), "built without UCX"));
    }
    int without = 0;
    waitpid(asks, &without, 0);
    if (without) cr_skip_test("built without UCX");
    auto [mine, theirs] = pair_of_sockets();
    const pid_t child = fork();
    if (!child) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        auto client = opened();
        std::string address(UcxTransport::kAddressBytes, '\0');
        const std::string own = client->address();
        if (write(theirs.get(), own.data(), own.size()) < 0) _exit(1);
        address.resize(static_cast<size_t>(
            std::max<ssize_t>(read(theirs.get(), address.data(), address.size()), 0)));
        if (!client->connect(address, kWord) || !client->greet(theirs.get(), Clock::now() + 60s))
            _exit(2);
        if (write(theirs.get(), "x", 1) != 1) _exit(3);
        client->keep(std::move(theirs));
        static std::vector<uint8_t> much(64 << 20);
        for (;;) send(*client, much.data(), much.size());
    }
    theirs.reset();
    auto server = opened();
    std::string address(UcxTransport::kAddressBytes, '\0');
    address.resize(static_cast<size_t>(
        std::max<ssize_t>(read(mine.get(), address.data(), address.size()), 0)));
    cr_assert(server->connect(address, kWord).has_value());
    cr_assert(write(mine.get(), server->address().data(), server->address().size()) > 0);
    server->answer(mine.get());
    char byte;
    cr_assert_eq(recv(mine.get(), &byte, 1, 0), 1);
    server->keep(std::move(mine));
    std::vector<uint8_t> in(1 << 20);
    receive_whole(*server, in.data(), in.size());
    std::thread killer([&] { kill(child, SIGKILL); });
    ssize_t n;
    while ((n = server->receive(in.data(), in.size(), 60000)) > 0) {}
    cr_expect(n == 0 || errno != EAGAIN, "%s", strerror(errno));
    killer.join();
    waitpid(child, nullptr, 0);
}

Test(ucx_transport, time_runs_out, .timeout = 120)
{
    Ends e;
    char in;
    cr_expect_eq(e.client->receive(&in, 1, 20), -1);
    cr_expect_eq(errno, EAGAIN);
    cr_expect_eq(e.client->wait(Transport::kRoom | Transport::kData, 20), Transport::kRoom);
}

Test(ucx_transport, a_descriptor_that_is_not_ours_any_more_is_not_used, .timeout = 120)
{
    auto client = opened(), server = opened();
    auto [mine, theirs] = pair_of_sockets();
    cr_assert(server->connect(client->address(), kWord).has_value() &&
              client->connect(server->address(), kWord).has_value());
    const int number = mine.get();
    client->keep(std::move(mine));
    cr_assert(client->ours());
    Fd file(open("/dev/null", O_RDWR | O_CLOEXEC));
    cr_assert_eq(dup2(file.get(), number), number);
    cr_expect(!client->ours());
    char in;
    cr_expect_eq(client->receive(&in, 1, -1), -1);
    cr_expect_eq(errno, EBADF);
    client.reset();
    cr_expect(fcntl(number, F_GETFD) >= 0, "nor closed");
}

// Somebody else reaches this UCX worker, and says the stream's next message.
Test(ucx_transport, a_stranger_is_not_heard, .timeout = 120)
{
    Ends e;
    auto stranger = opened();
    auto [mine, theirs] = pair_of_sockets();
    cr_assert(stranger->connect(e.server->address(), kWord + 1).has_value());
    stranger->keep(std::move(mine));
    const std::vector<uint8_t> lies(200 << 10, 'L');
    std::thread look([&] {
        std::vector<char> in(300 << 10);
        cr_expect_eq(e.server->receive(in.data(), in.size(), -1), 5);
        cr_expect_eq(memcmp(in.data(), "truth", 5), 0);
    });
    cr_assert_eq(send(*stranger, "lies", 4), 4);
    // What is announced is answered when the other side has dealt with it, and so with what came
    // before.
    cr_expect(send(*stranger, lies.data(), lies.size()) > 0);
    cr_assert_eq(send(*e.client, "truth", 5), 5);
    look.join();
}

// Both sides wait, and neither looks all the time.
Test(ucx_transport, who_waits_sleeps, .timeout = 120)
{
    Ends e;
    auto spent = [] {
        rusage r;
        getrusage(RUSAGE_SELF, &r);
        return std::chrono::seconds(r.ru_utime.tv_sec + r.ru_stime.tv_sec) +
               std::chrono::microseconds(r.ru_utime.tv_usec + r.ru_stime.tv_usec);
    };
    const auto before = spent();
    char in;
    cr_expect_eq(e.client->receive(&in, 1, 1000), -1);
    cr_expect_eq(errno, EAGAIN);
    cr_expect(spent() - before < 300ms, "%lld us",
              static_cast<long long>(std::chrono::microseconds(spent() - before).count()));
}

// --- how the two come to use it

namespace {

// As the worker does.
std::unique_ptr<Transport> serve(int fd, const std::string &decline = "")
{
    wire::FrameHeader h;
    cr_assert(receive_all(fd, &h, sizeof h, Clock::now() + 60s).has_value() &&
              h.type == wire::kUcxOfferCall);
    wire::UcxOffer offer;
    std::string address(h.bytes - sizeof offer, '\0');
    cr_assert(receive_all(fd, &offer, sizeof offer, Clock::now() + 60s).has_value());
    cr_assert(receive_all(fd, address.data(), address.size(), Clock::now() + 60s).has_value());
    auto reply = [&](const std::string &why_not, const std::string &ours) {
        const std::string &body = ours.empty() ? why_not : ours;
        wire::FrameHeader answer;
        answer.bytes = static_cast<uint32_t>(body.size());
        answer.type = static_cast<uint16_t>(wire::ServerFrame::reply);
        answer.flags = wire::kLast;
        answer.value = ours.empty() ? 801 : 0;
        cr_assert(send_all(fd, &answer, sizeof answer, Clock::now() + 60s).has_value());
        cr_assert(send_all(fd, body.data(), body.size(), Clock::now() + 60s).has_value());
    };
    if (!decline.empty()) return reply(decline, ""), nullptr;
    auto taken = take_ucx_offer(fd, opened(), offer, address, reply);
    cr_assert(taken.has_value(), "%s", taken.error().text.c_str());
    return std::move(*taken);
}

}  // namespace

Test(ucx_offer, both_go_on_through_ucx, .timeout = 120)
{
    opened();
    auto [mine, theirs] = pair_of_sockets();
    std::unique_ptr<Transport> server;
    std::thread worker([&] { server = serve(theirs.get()); });
    auto offer = UcxOffer::send(mine.get(), Clock::now() + 60s);
    cr_assert(offer.has_value(), "%s", offer.error().text.c_str());
    auto client = offer->settle(mine, Clock::now() + 60s, 60s);
    worker.join();
    cr_assert(client.has_value() && server, "%s",
              client ? "no server" : client.error().text.c_str());
    cr_expect_eq(mine.get(), -1, "the transport keeps it");
    cr_expect_str_eq((*client)->name(), "ucx");
    char in;
    cr_assert_eq(send(**client, "a", 1), 1);
    cr_assert(server->receive(&in, 1, 60000) == 1 && in == 'a');
    cr_assert_eq(send(*server, "b", 1), 1);
    cr_assert((*client)->receive(&in, 1, 60000) == 1 && in == 'b');
}

Test(ucx_offer, a_worker_that_declines_says_why, .timeout = 120)
{
    opened();
    auto [mine, theirs] = pair_of_sockets();
    std::thread worker([&] { cr_assert_null(serve(theirs.get(), "not today").get()); });
    auto offer = UcxOffer::send(mine.get(), Clock::now() + 60s);
    cr_assert(offer.has_value());
    auto client = offer->settle(mine, Clock::now() + 60s, 60s);
    worker.join();
    cr_assert(!client && client.error().kind == ErrorKind::unsupported);
    cr_expect_not_null(strstr(client.error().text.c_str(), "on the server: not today"));
    cr_expect(mine.get() >= 0, "the connection goes on");
}

// The address is right, and nobody answers there.
Test(ucx_offer, an_endpoint_that_does_not_come_up_is_given_up, .timeout = 120)
{
    auto silent = opened();
    auto [mine, theirs] = pair_of_sockets();
    std::thread worker([&] {
        wire::FrameHeader h;
        std::vector<uint8_t> body(UcxTransport::kAddressBytes);
        cr_assert(receive_all(theirs.get(), &h, sizeof h, Clock::now() + 60s).has_value());
        cr_assert(receive_all(theirs.get(), body.data(), h.bytes, Clock::now() + 60s).has_value());
        wire::FrameHeader answer;
        answer.type = static_cast<uint16_t>(wire::ServerFrame::reply);
        answer.bytes = static_cast<uint32_t>(silent->address().size());
        cr_assert(send_all(theirs.get(), &answer, sizeof answer, Clock::now() + 60s).has_value());
        cr_assert(send_all(theirs.get(), silent->address().data(), silent->address().size(),
                           Clock::now() + 60s)
                      .has_value());
        cr_assert(receive_all(theirs.get(), &h, sizeof h, Clock::now() + 60s).has_value());
        cr_expect(h.type == wire::kUcxSettleCall && h.value == 0, "told that it is not used");
    });
    auto offer = UcxOffer::send(mine.get(), Clock::now() + 60s);
    cr_assert(offer.has_value());
    auto client = offer->settle(mine, Clock::now() + 60s, 200ms);
    cr_assert(!client && client.error().kind == ErrorKind::unsupported);
    cr_expect_not_null(strstr(client.error().text.c_str(), "RGPU_UCX_NET_DEVICES"));
    cr_expect(mine.get() >= 0);
    worker.join();
}

Test(ucx_offer, without_a_library_it_is_said_what_to_install, .timeout = 120)
{
    setenv("RGPU_UCX_LIBRARY", "/nonexistent/libucp.so.0", 1);
    auto t = UcxTransport::open();
    cr_assert(!t && t.error().kind == ErrorKind::unsupported);
    cr_expect(strstr(t.error().text.c_str(), "built without UCX") ||
              (strstr(t.error().text.c_str(), "/nonexistent/libucp.so.0") &&
               strstr(t.error().text.c_str(), "install libucx0")));
}
