// SPDX-License-Identifier: Apache-2.0
// The handshake between two threads over a socket pair: who gets in, and who does not.
#include <criterion/criterion.h>
#include <sys/socket.h>

#include <thread>
#include <utility>

#include "net/handshake/handshake.h"

using namespace rgpu;
using namespace rgpu::net;
using namespace std::chrono_literals;

namespace {

struct Pair {
    Fd client, server;

    Pair()
    {
        int fds[2];
        cr_assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
        client.reset(fds[0]);
        server.reset(fds[1]);
    }
};

struct Outcome {
    Result<void> client = Error{};
    bool takes_packed = false, takes_lanes = false, takes_placed = false, takes_pools = false;
    Result<Client> server = Error{};
};

Outcome shake(const std::string &lease, const std::string &secret,
              const std::string &server_secret = "right")
{
    Pair p;
    Outcome o;
    auto deadline = Clock::now() + 5s;
    std::thread server([&] {
        o.server = server_handshake(
            p.server.get(),
            [&](const std::string &l) {
                return l == "lease-1" ? std::optional(server_secret) : std::nullopt;
            },
            deadline);
    });
    auto client = client_handshake(p.client.get(), lease, secret, 42, deadline);
    o.takes_packed = client && client->takes_packed;
    o.takes_lanes = client && client->takes_lanes;
    o.takes_placed = client && client->takes_placed;
    o.takes_pools = client && client->takes_pools;
    o.client = client ? Result<void>() : Result<void>(std::move(client).error());
    server.join();
    return o;
}

}  // namespace

Test(handshake, the_right_secret_gets_in)
{
    Outcome o = shake("lease-1", "right");
    cr_assert(o.client, "%s", o.client ? "" : o.client.error().text.c_str());
    cr_assert(o.server);
    cr_expect(o.takes_packed);
    cr_expect(o.takes_lanes);
    cr_expect(o.takes_placed);
    cr_expect(o.takes_pools);
    cr_expect(o.server->lease == "lease-1");
    cr_expect(o.server->table_digest == 42);
    cr_expect(o.server->pid == static_cast<uint32_t>(getpid()));
}

Test(handshake, a_lane_names_its_worker_and_is_never_encrypted)
{
    for (const bool encrypt : {false, true}) {
        Pair p;
        auto deadline = Clock::now() + 5s;
        Result<Client> server = Error{};
        std::thread other([&] {
            server = server_handshake(p.server.get(),
                                      [](auto &) { return std::optional<std::string>("right"); },
                                      deadline, {.encrypt = encrypt});
        });
        auto client =
            client_handshake(p.client.get(), "lease-1", "right", 42, deadline, wire::Purpose::lane);
        other.join();
        cr_assert_eq(server.has_value(), !encrypt);
        cr_assert_eq(client.has_value(), !encrypt);
        if (encrypt) continue;
        cr_expect(server->purpose == wire::Purpose::lane);
        cr_expect_eq(server->table_digest, 42u);
        cr_expect(!client->takes_offers && !client->takes_packed && !client->takes_lanes);
    }
}

Test(handshake, wrong_secret_and_unknown_lease_are_told_the_same)
{
    Outcome wrong = shake("lease-1", "wrong"), unknown = shake("lease-2", "right");
    cr_assert(!wrong.client && !wrong.server && !unknown.client && !unknown.server);
    cr_expect(wrong.client.error().text == unknown.client.error().text);
    cr_expect(wrong.client.error().kind == ErrorKind::invalid);
}

Test(handshake, a_server_that_does_not_hold_the_secret_is_found_out)
{
    Pair p;
    auto deadline = Clock::now() + 5s;
    std::thread impostor([&] {
        wire::ServerHello hello;
        wire::ClientHello client;
        wire::ServerVerdict verdict;
        verdict.accepted = 1;
        (void)send_all(p.server.get(), &hello, sizeof hello, deadline).has_value();
        (void)receive_all(p.server.get(), &client, sizeof client, deadline).has_value();
        (void)send_all(p.server.get(), &verdict, sizeof verdict, deadline).has_value();
    });
    auto r = client_handshake(p.client.get(), "lease-1", "right", 0, deadline);
    impostor.join();
    cr_assert(!r);
    cr_expect(r.error().text.find("does not hold") != std::string::npos);
}

Test(handshake, both_sides_make_the_same_key_for_an_encrypted_connection)
{
    Pair p;
    auto deadline = Clock::now() + 5s;
    Result<Client> server = Error{};
    std::thread other([&] {
        server = server_handshake(p.server.get(),
                                  [](auto &) { return std::optional<std::string>("right"); },
                                  deadline, {.encrypt = true});
    });
    auto client = client_handshake(p.client.get(), "lease-1", "right", 0, deadline);
    other.join();
    cr_assert(client && server);
    cr_assert(client->key && server->key);
    cr_expect(*client->key == *server->key);
    cr_expect(*client->key != Digest{});
    cr_expect(!client->takes_packed, "sizes tell of what is packed");
    cr_expect(!client->takes_lanes, "they would not be encrypted");
}

// Whoever sits between the two and takes the word "encrypted" away, or adds it, is found out by
// both.
Test(handshake, nobody_between_them_can_talk_them_out_of_encryption)
{
    for (bool encrypt : {true, false}) {
        Pair near, far;
        auto deadline = Clock::now() + 5s;
        Result<Client> server = Error{};
        std::thread other([&] {
            server = server_handshake(far.server.get(),
                                      [](auto &) { return std::optional<std::string>("right"); },
                                      deadline, {.encrypt = encrypt});
        });
        std::thread between([&] {
            wire::ServerHello hello;
            wire::ClientHello answer;
            wire::ServerVerdict verdict;
            (void)receive_all(far.client.get(), &hello, sizeof hello, deadline).has_value();
            hello.flags ^= wire::kEncrypted;
            (void)send_all(near.server.get(), &hello, sizeof hello, deadline).has_value();
            (void)receive_all(near.server.get(), &answer, sizeof answer, deadline).has_value();
            answer.flags ^= wire::kEncrypted;
            (void)send_all(far.client.get(), &answer, sizeof answer, deadline).has_value();
            (void)receive_all(far.client.get(), &verdict, sizeof verdict, deadline).has_value();
            (void)send_all(near.server.get(), &verdict, sizeof verdict, deadline).has_value();
        });
        auto client = client_handshake(near.client.get(), "lease-1", "right", 0, deadline);
        other.join();
        between.join();
        cr_expect(!client && !server);
    }
}

namespace {

// A handshake with somebody between the two, who may change each message on its way. Returns
// whether each side believes it.
template <class Server, class Hello, class Verdict>
std::pair<bool, bool> shake_through(Server change_server, Hello change_hello,
                                    Verdict change_verdict)
{
    Pair near, far;
    auto deadline = Clock::now() + 5s;
    Result<Client> server = Error{};
    std::thread other([&] {
        server = server_handshake(
            far.server.get(), [](auto &) { return std::optional<std::string>("right"); }, deadline);
        far.server.reset();
    });
    std::thread between([&] {
        wire::ServerHello hello;
        wire::ClientHello answer;
        wire::ServerVerdict verdict;
        (void)receive_all(far.client.get(), &hello, sizeof hello, deadline).has_value();
        change_server(hello);
        (void)send_all(near.server.get(), &hello, sizeof hello, deadline).has_value();
        (void)receive_all(near.server.get(), &answer, sizeof answer, deadline).has_value();
        change_hello(answer);
        (void)send_all(far.client.get(), &answer, sizeof answer, deadline).has_value();
        (void)receive_all(far.client.get(), &verdict, sizeof verdict, deadline).has_value();
        change_verdict(verdict, answer);
        (void)send_all(near.server.get(), &verdict, sizeof verdict, deadline).has_value();
        near.server.reset();
    });
    auto client = client_handshake(near.client.get(), "lease-1", "right", 42, deadline);
    other.join();
    between.join();
    return {client.has_value(), server.has_value()};
}

constexpr auto kAsItIs = [](auto &...) {};

}  // namespace

Test(handshake, no_field_of_the_hello_can_be_changed_on_its_way)
{
    for (size_t at = 8; at < sizeof(wire::ClientHello); ++at) {
        auto [client, server] = shake_through(
            kAsItIs, [&](wire::ClientHello &h) { reinterpret_cast<uint8_t *>(&h)[at] ^= 1; },
            kAsItIs);
        cr_expect(!client && !server, "byte %zu", at);
    }
    auto [client, server] = shake_through(kAsItIs, kAsItIs, kAsItIs);
    cr_expect(client && server);
}

Test(handshake, no_field_of_the_verdict_can_be_changed_on_its_way)
{
    for (size_t at = 0; at < sizeof(wire::ServerVerdict); ++at) {
        auto [client, server] = shake_through(
            kAsItIs, kAsItIs,
            [&](wire::ServerVerdict &v, auto &) { reinterpret_cast<uint8_t *>(&v)[at] ^= 2; });
        cr_expect(!client && server, "byte %zu", at);
    }
}

Test(handshake, the_clients_own_proof_is_no_verdict)
{
    auto [client, server] =
        shake_through(kAsItIs, kAsItIs, [](wire::ServerVerdict &v, wire::ClientHello &h) {
            v = {};
            v.accepted = wire::kAccepted;
            v.proof = h.proof;
        });
    cr_expect(!client && server);
}

Test(handshake, another_version_is_refused_with_words_and_never_talked_down)
{
    auto [client, server] = shake_through([](wire::ServerHello &h) { h.version--; },
                                          [](wire::ClientHello &h) { h.version--; }, kAsItIs);
    cr_expect(!client && !server);
}

Test(handshake, garbage_and_other_versions_are_refused)
{
    for (int kind = 0; kind < 2; kind++) {
        Pair p;
        auto deadline = Clock::now() + 5s;
        wire::ClientHello hello;
        if (kind == 0) hello.magic = 0x20544547;  // "GET "
        if (kind == 1) hello.version++;
        (void)send_all(p.client.get(), &hello, sizeof hello, deadline).has_value();
        auto r = server_handshake(
            p.server.get(), [](auto &) { return std::optional<std::string>("right"); }, deadline);
        cr_assert(!r);
        cr_expect(r.error().kind == ErrorKind::invalid);
    }
}

Test(handshake, a_hello_that_stops_half_way_ends_at_the_deadline)
{
    Pair p;
    (void)send_all(p.client.get(), "RGPU", 4, Clock::now() + 1s).has_value();
    auto r = server_handshake(
        p.server.get(), [](auto &) { return std::nullopt; }, Clock::now() + 100ms);
    cr_assert(!r);
    cr_expect(r.error().kind == ErrorKind::unavailable);
    p.client.reset();
}

Test(connect, names_the_address_and_the_reason)
{
    auto listening = listen("127.0.0.1:0");
    cr_assert(listening);
    std::string address = "127.0.0.1:" + std::to_string(local_port(listening->get()));
    cr_expect(connect(address, Clock::now() + 5s).has_value());
    listening->reset();
    auto refused = connect(address, Clock::now() + 5s);
    cr_assert(!refused);
    cr_expect(refused.error().kind == ErrorKind::disconnected);
    cr_expect(refused.error().text.find(address) != std::string::npos);
    cr_expect(connect("nowhere", Clock::now() + 1s).error().kind == ErrorKind::invalid);
}
