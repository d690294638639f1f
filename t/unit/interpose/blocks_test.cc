// SPDX-License-Identifier: Apache-2.0
// How far a program is ahead of a server on its own host with the blocks of something large. The
// server is the test.
#include "interpose/link/blocks.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <future>
#include <vector>

#include "net/transport/socket_transport.h"

using namespace rgpu;
using namespace rgpu::interpose;
using namespace std::chrono_literals;
using calls::CallId;
using wire::FrameHeader;

namespace {

constexpr unsigned kLimit = 60;            // seconds: a test that hangs ends here
constexpr auto kSoon = 200us;              // an answer from the same host
constexpr size_t kBytes = 64 << 10;        // of a block
constexpr size_t kBlocks = 20, kFew = 16;  // of the last number none is waited for

struct Ends {
    std::unique_ptr<ServerSession> client;
    Fd server;

    explicit Ends(bool one_host)
    {
        alarm(kLimit);
        int fds[2];
        cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
        client = std::make_unique<ServerSession>(std::make_unique<net::SocketTransport>(Fd(fds[0])),
                                                 "test", one_host);
        server = Fd(fds[1]);
    }

    // The next frame, its body read, too.
    FrameHeader next()
    {
        FrameHeader h;
        read(&h, sizeof h);
        std::vector<uint8_t> body(h.bytes);
        read(body.data(), body.size());
        return h;
    }
    void answer(const FrameHeader &h, CUresult result = CUDA_SUCCESS)
    {
        const FrameHeader reply{0, static_cast<uint16_t>(wire::ServerFrame::reply), wire::kLast,
                                h.sequence, result};
        cr_assert_eq(send(server.get(), &reply, sizeof reply, MSG_NOSIGNAL), sizeof reply);
    }
    // Nothing comes, though there is room for it.
    bool is_quiet() const
    {
        pollfd p{server.get(), POLLIN, 0};
        return poll(&p, 1, 100) == 0;
    }
    // A question, answered after that time; how long it took.
    std::chrono::nanoseconds question(std::chrono::nanoseconds late)
    {
        const auto answered = std::async(std::launch::async, [&] {
            const FrameHeader h = next();
            for (const auto end = std::chrono::steady_clock::now() + late;
                 std::chrono::steady_clock::now() < end;) {}
            answer(h);
        });
        const auto since = std::chrono::steady_clock::now();
        Reply reply;
        cr_assert_eq(client->ask(
                         CallId::cuCtxSynchronize, 0, [](wire::Writer &) {}, reply),
                     CUDA_SUCCESS);
        return std::chrono::steady_clock::now() - since;
    }
    void come_near()
    {
        while (question(0ns) >= kSoon) {}
    }
    std::future<CUresult> send_blocks(size_t count = kBlocks)
    {
        return std::async(std::launch::async, [this, count] {
            const std::vector<uint8_t> data(kBytes);
            Blocks blocks(*client, count);
            CUresult r = CUDA_SUCCESS;
            for (size_t i = 0; !r && i < count; i++)
                r = blocks.post(CallId::cuMemcpyHtoDAsync_v2, 0, [](wire::Writer &) {},
                                {data.data(), data.size()});
            return r;
        });
    }

private:
    void read(void *to, size_t bytes)
    {
        for (auto p = static_cast<uint8_t *>(to); bytes;) {
            const ssize_t n = recv(server.get(), p, bytes, 0);
            cr_assert_gt(n, 0);
            p += n, bytes -= static_cast<size_t>(n);
        }
    }
};

bool asks(const FrameHeader &h) { return h.flags & wire::kWantsReply; }

// All of them come, and nobody waits.
void expect_all_at_once(Ends &ends, size_t count = kBlocks)
{
    auto done = ends.send_blocks(count);
    for (size_t i = 0; i < count; i++) cr_expect_not(asks(ends.next()));
    cr_expect_eq(done.get(), CUDA_SUCCESS);
}

}  // namespace

Test(blocks, the_third_waits_until_the_first_was_read)
{
    Ends ends(true);
    ends.come_near();
    auto done = ends.send_blocks();
    FrameHeader before = ends.next(), h = ends.next();
    cr_expect(asks(before) && asks(h));
    for (size_t i = 2; i < kBlocks; i++) {
        if (i < 4) cr_expect(ends.is_quiet());
        ends.answer(before);
        before = h, h = ends.next();
        cr_expect_eq(asks(h), i + 2 < kBlocks, "the last ones are nobody's to wait for");
    }
    cr_expect_eq(done.get(), CUDA_SUCCESS);
}

Test(blocks, failure_of_one_ends_them)
{
    Ends ends(true);
    ends.come_near();
    auto done = ends.send_blocks();
    const FrameHeader first = ends.next(), second = ends.next();
    ends.answer(first, CUDA_ERROR_INVALID_VALUE);
    cr_expect(ends.is_quiet());
    cr_expect(done.wait_for(0s) == std::future_status::timeout,
              "an answer is still to come where the blocks are");
    ends.answer(second);
    cr_expect_eq(done.get(), CUDA_ERROR_INVALID_VALUE);
}

Test(blocks, server_that_goes_ends_them)
{
    Ends ends(true);
    ends.come_near();
    auto done = ends.send_blocks();
    ends.next(), ends.next();
    ends.server = {};
    cr_expect_eq(done.get(), CUDA_ERROR_EXTERNAL_DEVICE);
}

Test(blocks, few_are_not_waited_for)
{
    Ends ends(true);
    ends.come_near();
    expect_all_at_once(ends, kFew);
}

Test(blocks, server_on_another_host_is_not_waited_for)
{
    Ends ends(false);
    ends.come_near();
    expect_all_at_once(ends);
}

// The near end of a tunnel to another host.
Test(blocks, server_that_answers_late_is_not_waited_for)
{
    Ends ends(true);
    ends.question(kSoon * 2);
    expect_all_at_once(ends);
}
