// SPDX-License-Identifier: Apache-2.0
// Which calls leave at once and which stay, in what order, and which are never sent.
#include "interpose/link/call_buffer.h"

#include <future>

#include "link_support.h"

using namespace rgpu;
using namespace rgpu::interpose;
using test::kCall;
using test::Parts;
using wire::FrameHeader;
using wire::ServerFrame;

namespace {

constexpr auto kOther = calls::CallId::cuMemFree_v2;

// The next frames are these of put_until_one_stays().
void expect_numbers(const Parts &p, size_t first, size_t end)
{
    for (size_t n = first; n < end; n++) {
        std::string body;
        const FrameHeader h = p.receive(&body);
        cr_expect_eq(h.sequence, n + 1);
        cr_expect(body == std::to_string(n));
    }
}

}  // namespace

Test(call_buffer, call_stays_behind_others_until_it_is_flushed)
{
    Parts p;
    const size_t left = p.put_until_one_stays();
    cr_expect_gt(left, 0, "an idle server gets its first call at once");
    expect_numbers(p, 0, left);
    cr_expect(p.is_quiet());
    const auto lock = p.calls.lock();
    p.calls.flush();
    cr_expect(p.calls.is_empty());
    expect_numbers(p, left, left + 1);
}

Test(call_buffer, question_takes_along_what_was_gathered)
{
    Parts p;
    const size_t left = p.put_until_one_stays();
    Answer answer;
    cr_expect_eq(p.put(kCall, "?", answer), CUDA_SUCCESS);
    expect_numbers(p, 0, left + 1);
    const FrameHeader h = p.receive();
    cr_expect_eq(h.flags, wire::kWantsReply);
    cr_expect_eq(h.sequence, left + 2);
    p.send(ServerFrame::reply, h.sequence);
    cr_expect_eq(p.answers.wait(answer), CUDA_SUCCESS);
}

Test(call_buffer, copy_that_is_waited_for_says_so)
{
    Parts p;
    char to[4];
    Answer answer(to, sizeof to, true, 0);
    cr_expect_eq(p.put(kCall, "", answer), CUDA_SUCCESS);
    const FrameHeader h = p.receive();
    cr_expect_eq(h.flags, wire::kWantsReply | wire::kCallerWaits);
    p.send(ServerFrame::data, h.sequence, "abcd");
    cr_expect_eq(p.answers.wait(answer), CUDA_SUCCESS);
    cr_expect(!memcmp(to, "abcd", sizeof to));
}

Test(call_buffer, nothing_stays_where_nobody_would_send_it)
{
    Parts p;
    p.calls.set_watched(false);
    for (size_t n = 0; n < 100; n++) {
        p.put(kCall, std::to_string(n));
        const auto lock = p.calls.lock();
        cr_assert(p.calls.is_empty());
    }
    expect_numbers(p, 0, 100);
}

Test(call_buffer, full_buffer_leaves)
{
    Parts p;
    const size_t left = p.put_until_one_stays();
    cr_expect_eq(p.put(kCall, std::string(32 << 10, 'x')), CUDA_SUCCESS);
    expect_numbers(p, 0, left + 1);
    cr_expect_eq(p.receive().bytes, 32 << 10);
}

Test(call_buffer, payload_follows_its_body_whatever_its_size)
{
    Parts p;
    for (const size_t bytes :
         {size_t{1}, size_t{8} << 10, (size_t{8} << 10) + 1, size_t{1} << 20}) {
        const std::string payload(bytes, 'p');
        auto sent = std::async(std::launch::async, [&] {
            const CUresult r = p.put(kCall, "body", {}, {payload.data(), payload.size()});
            const auto lock = p.calls.lock();
            p.calls.flush();
            return r;
        });
        std::string body;
        p.receive(&body);
        cr_expect(body == "body" + payload, "%zu bytes", bytes);
        cr_expect_eq(sent.get(), CUDA_SUCCESS);
    }
}

// A server that first wants to be rid of its answers: the client reads them while it sends.
Test(call_buffer, sender_reads_while_there_is_no_room)
{
    Parts p;
    const std::string much(8 << 20, 'm');
    auto server = std::async(std::launch::async, [&] {
        for (size_t i = 0; i < 512; i++)
            p.send(ServerFrame::reply, 1'000'000, std::string(16 << 10, 'a'));
        return p.receive().bytes;
    });
    cr_expect_eq(p.put(kCall, "", {}, {much.data(), much.size()}), CUDA_SUCCESS);
    cr_expect_eq(server.get(), much.size());
}

Test(call_buffer, call_is_sent_by_the_servers_number_or_not_at_all)
{
    Parts p;
    wire::Snapshot theirs;
    theirs.calls = {"cuOfAnotherVersion", std::string(calls::info(kCall).symbol),
                    std::string(calls::info(kOther).symbol)};
    theirs.served = {1, 1, 0};
    p.calls.learn(theirs);
    cr_expect(p.calls.server_has(kCall) && p.calls.server_has(kOther));
    cr_expect_not(p.calls.server_has(calls::CallId::cuInit));
    Answer answer;
    cr_expect_eq(p.put(kOther, "", answer), CUDA_ERROR_NOT_SUPPORTED);
    cr_expect(answer.done);
    cr_expect_eq(answer.reply.result, CUDA_ERROR_NOT_SUPPORTED);
    p.calls.set_watched(false);
    cr_expect_eq(p.put(kCall), CUDA_SUCCESS);
    cr_expect_eq(p.receive().type, 1);
    cr_expect(p.is_quiet());
}

Test(call_buffer, call_that_carries_its_place_in_a_thread_is_known_as_the_plain_one)
{
    Parts p;
    wire::Snapshot theirs;
    theirs.calls = {"cuStreamQuery"};
    theirs.served = {1};
    p.calls.learn(theirs);
    cr_expect(p.calls.server_has(calls::CallId::cuStreamQuery_ptsz));
}

Test(call_buffer, lost_connection_refuses_and_no_answer_is_awaited)
{
    Parts p;
    p.connection.lose("the test wants it");
    cr_expect_eq(p.put(kCall), CUDA_ERROR_EXTERNAL_DEVICE);
    Answer answer;
    cr_expect_eq(p.put(kCall, "", answer), CUDA_ERROR_EXTERNAL_DEVICE);
    cr_expect(answer.done);
    cr_expect_not(p.answers.anybody_waits());
    cr_expect_eq(p.calls.sent(), 0);
}

Test(call_buffer, context_is_what_it_means_to_the_server)
{
    Parts p;
    p.calls.set_one_of_several(3, [](uint32_t context, unsigned index) { return context + index; });
    p.calls.set_watched(false);
    const auto nothing = [](wire::Writer &) {};
    p.calls.put(kCall, 20, nothing, {}, {});
    cr_expect_eq(p.receive().value, 23);
    p.calls.put(kCall, 0, nothing, {}, {});
    cr_expect_eq(p.receive().value, 0, "none is none everywhere");
}
