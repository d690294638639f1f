// SPDX-License-Identifier: Apache-2.0
// A call whose body throws half-way: nothing of it is sent, nobody waits for its answer, and the
// next call is sent as if it had not been. The server is the test.
#include <criterion/criterion.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <new>
#include <vector>

#include "interpose/link/blocks.h"
#include "net/transport/socket_transport.h"

using namespace rgpu;
using namespace rgpu::interpose;
using calls::CallId;
using wire::FrameHeader;

namespace {

constexpr unsigned kLimit = 60;  // seconds: a test that hangs ends here
constexpr CallId kCall = CallId::cuMemsetD8Async;
constexpr size_t kBytes = 100;
constexpr auto kSoon = std::chrono::microseconds(200);  // an answer from the same host

void throws(wire::Writer &w)
{
    w.value(uint64_t{1});
    throw std::bad_alloc();
}
void writes(wire::Writer &w) { w.value(uint64_t{2}); }

struct Ends {
    std::unique_ptr<ServerSession> client;
    Fd server;

    Ends()
    {
        alarm(kLimit);
        int fds[2];
        cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
        client = std::make_unique<ServerSession>(std::make_unique<net::SocketTransport>(Fd(fds[0])),
                                                 "test", true);
        server = Fd(fds[1]);
    }

    // The next frame is the one of writes().
    FrameHeader next()
    {
        FrameHeader h;
        uint64_t value = 0;
        cr_assert_eq(recv(server.get(), &h, sizeof h, MSG_WAITALL), sizeof h);
        cr_assert_eq(h.bytes, sizeof value);
        cr_assert_eq(recv(server.get(), &value, sizeof value, MSG_WAITALL), sizeof value);
        cr_expect_eq(value, 2);
        return h;
    }
    void send(wire::ServerFrame type, uint32_t sequence, const std::vector<uint8_t> &body = {})
    {
        const FrameHeader h{static_cast<uint32_t>(body.size()), static_cast<uint16_t>(type),
                            wire::kLast, sequence, CUDA_SUCCESS};
        cr_assert_eq(::send(server.get(), &h, sizeof h, MSG_NOSIGNAL), sizeof h);
        cr_assert_eq(::send(server.get(), body.data(), body.size(), MSG_NOSIGNAL), body.size());
    }
    // A question is sent alone, and answered; how long that took.
    std::chrono::nanoseconds ask()
    {
        const auto answered = std::async(std::launch::async, [this] {
            const FrameHeader h = next();
            cr_expect(h.flags & wire::kWantsReply);
            send(wire::ServerFrame::reply, h.sequence);
        });
        const auto since = std::chrono::steady_clock::now();
        Reply reply;
        cr_expect_eq(client->ask(kCall, 0, writes, reply), CUDA_SUCCESS);
        return std::chrono::steady_clock::now() - since;
    }
};

}  // namespace

Test(put, posted_call_is_taken_back)
{
    Ends ends;
    cr_assert_throw(ends.client->tell(kCall, 0, throws), std::bad_alloc);
    cr_expect_eq(ends.client->tell(kCall, 0, writes), CUDA_SUCCESS);
    cr_expect_not(ends.next().flags & wire::kWantsReply);
    ends.ask();
}

Test(put, question_is_taken_back)
{
    Ends ends;
    Reply reply;
    cr_assert_throw(ends.client->ask(kCall, 0, throws, reply), std::bad_alloc);
    cr_expect_not(ends.client->waited_for());
    ends.ask();
}

Test(put, copy_to_the_host_is_taken_back)
{
    Ends ends;
    uint8_t to[kBytes];
    for (const bool wait : {true, false})
        cr_assert_throw(ends.client->copy_out(kCall, 0, throws, to, sizeof to, wait),
                        std::bad_alloc);
    cr_expect_not(ends.client->waited_for());
    cr_expect_not(ends.client->copies_under_way());
    ends.ask();
}

Test(put, question_ahead_is_taken_back_and_may_be_asked_again)
{
    Ends ends;
    Ahead ahead;
    cr_assert_throw(ends.client->ask_ahead(kCall, 0, throws, ahead), std::bad_alloc);
    cr_expect_not(ends.client->waited_for());
    cr_expect(ends.client->ask_ahead(kCall, 0, writes, ahead));
    ends.send(wire::ServerFrame::reply, ends.next().sequence, {7});
    Reply reply;
    cr_expect_eq(ends.client->take_ahead(ahead, reply), CUDA_SUCCESS);
    cr_expect_eq(reply.body.size(), 1);
    cr_assert_throw(ends.client->ask_ahead(kCall, 0, throws, ahead), std::bad_alloc);
    cr_expect(ends.client->ask_ahead(kCall, 0, writes, ahead), "also after one that was answered");
}

// The connection goes while it is sent: nobody keeps its place for an answer.
Test(put, question_ahead_without_a_connection)
{
    Ends ends;
    ends.server = {};
    for (int i = 0; i < 3; i++) {
        Ahead ahead;
        cr_expect_not(ends.client->ask_ahead(kCall, 0, writes, ahead));
    }
    Reply reply;
    cr_expect_eq(ends.client->ask(kCall, 0, writes, reply), CUDA_ERROR_EXTERNAL_DEVICE);
}

Test(put, block_that_is_taken_back_is_not_waited_for)
{
    Ends ends;
    while (ends.ask() >= kSoon) {}  // of a server that is near, blocks are waited for
    const std::vector<uint8_t> block(64 << 10);
    {
        Blocks blocks(*ends.client, 20);
        cr_assert_throw(blocks.post(kCall, 0, throws, {block.data(), block.size()}),
                        std::bad_alloc);
    }
    ends.ask();
}
