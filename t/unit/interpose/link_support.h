// SPDX-License-Identifier: Apache-2.0
// A connection whose server is the test: what the tests of src/interpose/link have in common.
#pragma once

#include <criterion/criterion.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "interpose/link/pump.h"
#include "net/transport/socket_transport.h"

namespace rgpu::interpose::test {

// A socket between the client's parts and the test.
struct Pair {
    static constexpr unsigned kLimit = 60;  // seconds: a test that hangs ends here

    Fd server;
    Connection connection;

    Pair() : Pair(sockets()) {}

    void send_bytes(const void *data, size_t bytes) const
    {
        cr_assert_eq(::send(server.get(), data, bytes, MSG_NOSIGNAL), static_cast<ssize_t>(bytes));
    }
    void send(wire::ServerFrame type, uint32_t sequence, const std::string &body = "",
              uint32_t value = CUDA_SUCCESS, uint16_t flags = wire::kLast) const
    {
        const wire::FrameHeader h{static_cast<uint32_t>(body.size()), static_cast<uint16_t>(type),
                                  flags, sequence, value};
        send_bytes(&h, sizeof h);
        send_bytes(body.data(), body.size());
    }
    void receive_bytes(void *to, size_t bytes) const
    {
        for (auto p = static_cast<uint8_t *>(to); bytes;) {
            const ssize_t n = recv(server.get(), p, bytes, 0);
            cr_assert_gt(n, 0);
            p += n, bytes -= static_cast<size_t>(n);
        }
    }
    // The next frame; its body to `body`.
    wire::FrameHeader receive(std::string *body = nullptr) const
    {
        wire::FrameHeader h;
        receive_bytes(&h, sizeof h);
        std::string read(h.bytes, '\0');
        receive_bytes(read.data(), read.size());
        if (body) *body = read;
        return h;
    }
    // Nothing comes for a while.
    bool is_quiet() const
    {
        pollfd p{server.get(), POLLIN, 0};
        return poll(&p, 1, 100) == 0;
    }

private:
    struct Sockets {
        Fd client, server;
    };
    explicit Pair(Sockets s)
        : server(std::move(s.server)),
          connection(std::make_unique<net::SocketTransport>(std::move(s.client)), "test")
    {}
    static Sockets sockets()
    {
        alarm(kLimit);
        int fds[2];
        cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
        return {Fd(fds[0]), Fd(fds[1])};
    }
};

constexpr calls::CallId kCall = calls::CallId::cuMemsetD8Async;

// What of a session works without its pump.
struct Parts : Pair, Announcements::HostFunctions {
    CopyMeter copies;
    FrameReader reader{connection};
    Announcements announcements{connection, *this};
    Answers answers{connection, reader, announcements, copies};
    CallBuffer calls{connection, answers, copies};
    std::vector<std::pair<uint64_t, uint32_t>> due_functions;  // with their status

    void due(uint64_t token, uint32_t status) override
    {
        due_functions.emplace_back(token, status);
    }
    // Puts a call with this body.
    CUresult put(calls::CallId id, const std::string &body = "", Awaited awaited = {},
                 Payload payload = {})
    {
        return calls.put(
            id, 0, [&](wire::Writer &w) { w.bytes(body.data(), body.size()); }, payload,
            std::move(awaited));
    }
    // Puts calls until one stays in the buffer, as the server is no longer thought to be idle; how
    // many have left. The body of each is its number, from 0 on.
    size_t put_until_one_stays()
    {
        for (size_t n = 0;; n++) {
            cr_assert_eq(put(kCall, std::to_string(n)), CUDA_SUCCESS);
            const auto lock = calls.lock();
            if (!calls.is_empty()) return n;
        }
    }
};

}  // namespace rgpu::interpose::test
