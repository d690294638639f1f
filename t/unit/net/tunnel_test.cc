// SPDX-License-Identifier: Apache-2.0
// The tunnel between two threads of one process: what goes in comes out, who has another key does
// not get in.
#include "net/transport/tunnel.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <future>
#include <thread>
#include <vector>

using namespace rgpu;
using namespace rgpu::net;
using namespace std::chrono_literals;

namespace {

Result<const Openssl *> missing() { return error(ErrorKind::unsupported, "none here"); }

Digest key_of(char c)
{
    Digest key;
    key.fill(static_cast<uint8_t>(c));
    return key;
}

struct Outcome {
    Result<std::shared_ptr<Tunnel>> client = Error{}, server = Error{};
};

// The two ends of a connection, the client's with an OpenSSL of its own.
Outcome open_both(char client_key, char server_key,
                  Result<const Openssl *> (*clients)() = private_openssl)
{
    int fds[2];
    cr_assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
    Outcome o;
    auto deadline = Clock::now() + 10s;
    auto server = std::async(std::launch::async, [&] {
        o.server =
            Tunnel::open(Fd(fds[1]), Side::server, key_of(server_key), common_openssl, deadline);
    });
    o.client = Tunnel::open(Fd(fds[0]), Side::client, key_of(client_key), clients, deadline);
    server.wait();
    return o;
}

}  // namespace

Test(tunnel, what_goes_in_comes_out_both_ways_at_once)
{
    Outcome o = open_both('k', 'k');
    cr_assert(o.client, "%s", o.client ? "" : o.client.error().text.c_str());
    cr_assert(o.server);
    Fd client = (*o.client)->take_plain(), server = (*o.server)->take_plain();
    constexpr size_t kBytes = 24 << 20;
    auto pattern = [](size_t i, size_t seed) {
        return static_cast<uint8_t>(i * 2654435761u >> 13 ^ seed);
    };
    auto deadline = Clock::now() + 120s;
    auto write = [&](int fd, size_t seed) {
        std::vector<uint8_t> data(kBytes);
        for (size_t i = 0; i < kBytes; i++) data[i] = pattern(i, seed);
        return send_all(fd, data.data(), kBytes, deadline).has_value();
    };
    auto read = [&](int fd, size_t seed) {
        std::vector<uint8_t> data(kBytes);
        if (!receive_all(fd, data.data(), kBytes, deadline)) return false;
        for (size_t i = 0; i < kBytes; i++)
            if (data[i] != pattern(i, seed)) return false;
        return true;
    };
    auto a = std::async(std::launch::async, write, client.get(), 1),
         b = std::async(std::launch::async, write, server.get(), 2);
    auto c = std::async(std::launch::async, read, client.get(), 2),
         d = std::async(std::launch::async, read, server.get(), 1);
    cr_expect(a.get());
    cr_expect(b.get());
    cr_expect(c.get());
    cr_expect(d.get());
}

Test(tunnel, another_key_fails_in_the_handshake)
{
    Outcome o = open_both('k', 'x');
    cr_assert(!o.client);
    cr_assert(!o.server);
    cr_expect(o.server.error().kind == ErrorKind::invalid, "%s", o.server.error().text.c_str());
    cr_expect(o.server.error().text.find("does not hold this lease's key") != std::string::npos,
              "%s", o.server.error().text.c_str());
}

Test(tunnel, one_end_that_closes_closes_the_other)
{
    Outcome o = open_both('k', 'k');
    cr_assert(o.client && o.server);
    Fd client = (*o.client)->take_plain(), server = (*o.server)->take_plain();
    cr_assert(send_all(server.get(), "last words", 10, Clock::now() + 5s));
    (*o.server)->finish(server.get());
    char text[11] = "";
    cr_assert(receive_all(client.get(), text, 10, Clock::now() + 5s));
    cr_expect_str_eq(text, "last words");
    auto end = receive_all(client.get(), text, 1, Clock::now() + 5s);
    cr_expect(!end && end.error().kind == ErrorKind::disconnected);
    Outcome again = open_both('k', 'k');  // in another thread, with the same OpenSSL
    cr_expect(again.client && again.server);
}

Test(tunnel, a_peer_that_speaks_no_tls_is_refused)
{
    int fds[2];
    cr_assert(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
    cr_assert(write(fds[1], "GET / HTTP/1.1\r\n\r\n", 18) == 18);
    auto o = Tunnel::open(Fd(fds[0]), Side::server, key_of('k'), common_openssl, Clock::now() + 5s);
    cr_assert(!o);
    cr_expect(o.error().kind == ErrorKind::invalid);
}

Test(tunnel, a_peer_that_says_nothing_costs_the_deadline)
{
    int fds[2];
    cr_assert(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
    auto begin = Clock::now();
    auto o =
        Tunnel::open(Fd(fds[0]), Side::client, key_of('k'), private_openssl, Clock::now() + 300ms);
    cr_assert(!o && o.error().kind == ErrorKind::unavailable);
    cr_expect(Clock::now() - begin < 30s);
}

Test(tunnel, without_openssl_there_is_none)
{
    Outcome o = open_both('k', 'k', missing);
    cr_assert(!o.client && !o.server);
    cr_expect(o.client.error().kind == ErrorKind::unsupported);
}

// A program that closes all descriptors gets these numbers again, for files of its own.
Test(tunnel, leaves_descriptors_alone_that_are_not_its_own)
{
    int fds[2];
    cr_assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
    auto deadline = Clock::now() + 10s;
    auto server = std::async(std::launch::async, [&] {
        return Tunnel::open(Fd(fds[1]), Side::server, key_of('k'), common_openssl, deadline)
            .has_value();
    });
    auto client = Tunnel::open(Fd(fds[0]), Side::client, key_of('k'), private_openssl, deadline);
    cr_assert(client && server.get());
    // fds[0] is the tunnel's now: a pipe takes its place, as after close() and pipe() of a
    // program's.
    int ours[2];
    cr_assert(pipe(ours) == 0);
    cr_assert(dup2(ours[0], fds[0]) == fds[0]);
    cr_assert(write(ours[1], "mine", 4) == 4);
    Fd plain = (*client)->take_plain();
    (void)!send(plain.get(), "x", 1, MSG_NOSIGNAL);
    char text[5] = "";
    auto end = receive_all(plain.get(), text, 1, Clock::now() + 10s);
    cr_expect(!end && end.error().kind == ErrorKind::disconnected);
    cr_expect(read(fds[0], text, 4) == 4);
    cr_expect_str_eq(text, "mine");
    cr_expect(fcntl(fds[0], F_GETFD) >= 0);
}

// Its libssl is not the one that this program is linked with, which the other is.
Test(tunnel, the_private_copy_is_private)
{
    const Openssl *mine = nullptr;
    std::thread([&] {
        if (auto o = private_openssl()) mine = *o;
    }).join();
    cr_assert(mine);
    cr_expect(mine->SSL_new != &::SSL_new);
    auto common = common_openssl();
    cr_assert(common);
    cr_expect((*common)->SSL_new == &::SSL_new);
}
