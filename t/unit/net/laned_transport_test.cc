// SPDX-License-Identifier: Apache-2.0
// Two ends in one process: a stream stays one over lanes, also where some have no room, and what is
// no record ends it.
#include "net/transport/laned_transport.h"

#include <criterion/criterion.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "socket_pair.h"

using namespace rgpu;
using namespace rgpu::net;

namespace {

struct Ends {
    std::unique_ptr<LanedTransport> client, server;
    std::vector<OwnSocket> client_lanes, server_lanes;

    explicit Ends(size_t lanes)
    {
        auto [mine, theirs] = pair_of_sockets();
        client = std::make_unique<LanedTransport>(std::move(mine));
        server = std::make_unique<LanedTransport>(std::move(theirs));
        for (size_t i = 0; i < lanes; i++) {
            auto [a, b] = pair_of_sockets();
            client_lanes.emplace_back(std::move(a));
            server_lanes.emplace_back(std::move(b));
        }
    }
    void begin(bool always = true)
    {
        client->add(std::move(client_lanes));
        server->add(std::move(server_lanes));
        client->begin_sending(always);
        server->begin_receiving(nullptr, 0);
    }
};

ssize_t send(Transport &t, const void *data, size_t bytes, int timeout = -1)
{
    const iovec part{const_cast<void *>(data), bytes};
    return t.send(&part, 1, timeout);
}

std::vector<uint8_t> noise(size_t bytes)
{
    std::vector<uint8_t> v(bytes);
    std::mt19937_64 random(7);
    for (size_t i = 0; i + 8 <= bytes; i += 8) {
        const uint64_t word = random();
        memcpy(&v[i], &word, sizeof word);
    }
    return v;
}

// Sends of all sizes, so that each size class follows each other; without waiting in `send` where
// `eager` says so.
void send_all(Transport &t, const std::vector<uint8_t> &bytes, bool eager)
{
    std::mt19937 random(11);
    for (size_t at = 0; at < bytes.size();) {
        const size_t most[] = {20, 5000, LanedTransport::kLeast + 20, 700 << 10, 3 << 20};
        size_t left =
            std::min<size_t>(bytes.size() - at, 1 + random() % most[random() % std::size(most)]);
        const bool two = random() % 2 && left > 16;
        for (size_t first = two ? 16 : 0; left;) {
            auto *p = const_cast<uint8_t *>(&bytes[at]);
            const iovec parts[2] = {{p, first}, {p + first, left - first}};
            const ssize_t n = t.send(parts, 2, eager ? 0 : -1);
            if (n < 0) {
                cr_assert_eq(errno, EAGAIN);
                t.wait(Transport::kRoom, 1000);
                continue;
            }
            first -= std::min(first, static_cast<size_t>(n));
            at += static_cast<size_t>(n), left -= static_cast<size_t>(n);
        }
    }
}

std::vector<uint8_t> receive_all(Transport &t, size_t bytes, int timeout)
{
    std::vector<uint8_t> got(bytes);
    std::mt19937 random(13);
    for (size_t at = 0; at < bytes;) {
        const size_t most = random() % 2 ? 100 : 1 << 20;
        if (timeout >= 0 && !t.wait(Transport::kData, 5000)) break;
        const ssize_t n = t.receive(&got[at], std::min(bytes - at, 1 + random() % most), timeout);
        if (n < 0 && errno == EAGAIN) continue;
        cr_assert_gt(n, 0, "%s", strerror(errno));
        at += static_cast<size_t>(n);
    }
    return got;
}

void comes_as_it_went(size_t lanes, bool eager, int timeout, bool always = true)
{
    Ends ends(lanes);
    ends.begin(always);
    const auto sent = noise(always ? 24 << 20 : 64 << 20);
    std::thread sender([&] { send_all(*ends.client, sent, eager); });
    const auto got = receive_all(*ends.server, sent.size(), timeout);
    sender.join();
    cr_expect(got == sent);
    cr_expect_eq(ends.server->wait(Transport::kData, 0), 0);
}

// What a peer writes itself.
struct Raw {
    Fd main, lane;
    std::unique_ptr<LanedTransport> t;

    Raw()
    {
        auto [mine, theirs] = pair_of_sockets();
        auto [a, b] = pair_of_sockets();
        main = std::move(theirs), lane = std::move(b);
        t = std::make_unique<LanedTransport>(std::move(mine));
        std::vector<OwnSocket> lanes;
        lanes.emplace_back(std::move(a));
        t->add(std::move(lanes));
        t->begin_receiving(nullptr, 0);
    }
    void head(uint32_t bytes, uint32_t way)
    {
        const wire::Record r{bytes, way};
        cr_assert_eq(write(main.get(), &r, sizeof r), static_cast<ssize_t>(sizeof r));
    }
};

}  // namespace

Test(laned_transport, one_lane) { comes_as_it_went(1, false, -1); }
Test(laned_transport, four_lanes) { comes_as_it_went(4, false, -1); }
Test(laned_transport, most_lanes) { comes_as_it_went(wire::kMostLanes, false, 1000); }
Test(laned_transport, without_waiting) { comes_as_it_went(4, true, 0); }
Test(laned_transport, one_and_lanes_by_turns) { comes_as_it_went(4, false, -1, false); }
Test(laned_transport, by_turns_without_waiting) { comes_as_it_went(3, true, 0, false); }

Test(laned_transport, plain_until_lanes_begin)
{
    Ends ends(2);
    cr_assert_eq(send(*ends.client, "abc", 3), 3);
    char got[8];
    cr_expect_eq(ends.server->wait(Transport::kData, 0), Transport::kData);
    cr_expect_eq(ends.server->receive(got, sizeof got, 0), 3);
    cr_expect_eq(memcmp(got, "abc", 3), 0, "bytes as they are, without a record");
}

// The receiver had read on behind the word that lanes begin.
Test(laned_transport, what_has_come_already)
{
    Ends ends(1);
    ends.server->add(std::move(ends.server_lanes));
    const uint8_t come[] = {3, 0, 0, 0, 0, 0, 0, 0, 'a', 'b', 'c', 2, 0};
    ends.server->begin_receiving(come, sizeof come);
    cr_expect_eq(ends.server->wait(Transport::kData, 0), Transport::kData);
    char got[8];
    cr_expect_eq(ends.server->receive(got, 2, 0), 2);
    cr_expect_eq(ends.server->wait(Transport::kData, 0), Transport::kData);
    cr_expect_eq(ends.server->receive(got + 2, 6, 0), 1);
    cr_expect_eq(memcmp(got, "abc", 3), 0);
    cr_expect_eq(ends.server->wait(Transport::kData, 0), 0u, "half a head");
    const uint8_t rest[] = {0, 0, 0, 0, 0, 0, 'd', 'e'};
    cr_assert_eq(send(*ends.client, rest, sizeof rest),
                 static_cast<ssize_t>(sizeof rest));  // as bytes
    cr_expect_eq(ends.server->receive(got, sizeof got, -1), 2);
    cr_expect_eq(memcmp(got, "de", 2), 0);
}

Test(laned_transport, waits_where_the_bytes_come)
{
    Raw raw;
    raw.head(3, 1);
    char got[8];
    cr_expect_eq(raw.t->receive(got, sizeof got, 0), -1);
    cr_expect_eq(errno, EAGAIN);
    raw.head(1, 0);
    cr_expect_eq(raw.t->wait(Transport::kData, 0), 0u, "what is next is on the lane");
    cr_assert_eq(write(raw.lane.get(), "abc", 3), 3);
    cr_expect_eq(raw.t->wait(Transport::kData, 0), Transport::kData);
    cr_expect_eq(raw.t->receive(got, sizeof got, 20), 3);
    cr_expect_eq(raw.t->receive(got, sizeof got, 20), -1);
    cr_expect_eq(errno, EAGAIN);
    raw.lane.reset();
    raw.head(1, 1);  // is what the record before has as its byte
    cr_expect_eq(raw.t->receive(got, sizeof got, -1), 1);
}

Test(laned_transport, full_lane)
{
    Ends ends(2);
    ends.begin();
    const auto sent = noise(32 << 20);
    size_t at = 0;
    for (ssize_t n; (n = send(*ends.client, &sent[at], sent.size() - at, 0)) > 0;)
        at += static_cast<size_t>(n);
    cr_expect_eq(errno, EAGAIN);
    cr_expect_lt(at, sent.size());
    cr_expect_eq(ends.client->wait(Transport::kRoom, 0), 0u);
    std::vector<uint8_t> got(sent.size());
    std::thread reader([&] { got = receive_all(*ends.server, sent.size(), -1); });
    while (at < sent.size()) {
        const ssize_t n = send(*ends.client, &sent[at], sent.size() - at);
        cr_assert_gt(n, 0);
        at += static_cast<size_t>(n);
    }
    reader.join();
    cr_expect(got == sent);
}

Test(laned_transport, no_records)
{
    const wire::Record wrong[] = {{0, 0}, {0, 1}, {1, 2}, {1, 0xffffffff}};
    for (const wire::Record &r : wrong)
        for (const bool looked : {false, true}) {
            Raw raw;
            char got;
            if (looked) {  // the head is taken with what is in front of it
                raw.head(1, 0);
                cr_assert_eq(write(raw.main.get(), "a", 1), 1);
                raw.head(r.bytes, r.lane);
                cr_assert_eq(raw.t->receive(&got, 1, -1), 1);
                cr_expect_eq(raw.t->wait(Transport::kData, 0), Transport::kData);
            } else {
                raw.head(r.bytes, r.lane);
            }
            for (int again = 0; again < 2; again++) {
                cr_expect_eq(raw.t->receive(&got, 1, -1), -1);
                cr_expect_eq(errno, EPROTO);
            }
        }
}

Test(laned_transport, a_lane_ends)
{
    Raw raw;
    raw.head(3, 1);
    raw.lane.reset();
    char got[8];
    cr_expect_eq(raw.t->receive(got, sizeof got, -1), 0);
    Ends ends(1);
    ends.begin();
    ends.server.reset();
    const auto sent = noise(1 << 20);
    cr_expect_eq(send(*ends.client, sent.data(), sent.size()), -1);
    cr_expect_eq(errno, EPIPE);
}

Test(laned_transport, shut_down)
{
    Ends ends(2);
    ends.begin();
    ends.client->begin_receiving(nullptr, 0);
    std::thread other([&] { ends.client->shutdown(); });
    char got;
    cr_expect_eq(ends.client->receive(&got, 1, -1), 0);
    other.join();
    cr_expect_eq(ends.server->receive(&got, 1, -1), 0);
}
