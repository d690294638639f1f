// SPDX-License-Identifier: Apache-2.0
// Who gets which answer, what a server may not answer, and what is left when the connection goes.
#include "interpose/link/answers.h"

#include <future>

#include "link_support.h"

using namespace rgpu;
using namespace rgpu::interpose;
using test::kCall;
using wire::ServerFrame;

namespace {

struct Waiter {
    Answer answer;
    uint32_t sequence = 0;
    std::future<CUresult> result;
};

struct Asked : test::Parts {
    // Sends a question, which a thread waits for.
    void ask(Waiter &w)
    {
        cr_assert_eq(put(kCall, "", w.answer), CUDA_SUCCESS);
        const wire::FrameHeader h = receive();
        cr_expect_eq(h.flags, wire::kWantsReply);
        w.sequence = h.sequence;
        w.result = std::async(std::launch::async, [&] { return answers.wait(w.answer); });
    }
    // A copy of so many bytes to `to`, which nobody waits for.
    uint32_t copy(void *to, size_t bytes, uint64_t stream = 0)
    {
        cr_assert_eq(put(kCall, "", std::make_unique<Answer>(to, bytes, false, stream)),
                     CUDA_SUCCESS);
        const auto lock = calls.lock();
        calls.flush();
        const wire::FrameHeader h = receive();
        cr_expect_eq(h.flags, wire::kWantsReply);
        return h.sequence;
    }
    void expect_lost()
    {
        answers.read_if_nobody_does();
        cr_expect_eq(connection.state(), CUDA_ERROR_EXTERNAL_DEVICE);
        cr_expect_not(answers.copies_under_way());
        cr_expect_not(answers.pushes_expected());
    }
};

}  // namespace

Test(answers, each_thread_gets_its_own_whoever_reads)
{
    Asked a;
    Waiter w[3];
    for (Waiter &one : w) a.ask(one);
    cr_expect(a.answers.anybody_waits());
    for (const size_t i : {2, 0, 1})
        a.send(ServerFrame::reply, w[i].sequence, std::to_string(i), static_cast<uint32_t>(i));
    for (size_t i = 0; i < 3; i++) {
        cr_expect_eq(w[i].result.get(), static_cast<CUresult>(i));
        cr_assert_eq(w[i].answer.reply.body.size(), 1);
        cr_expect_eq(w[i].answer.reply.body[0], '0' + i);
    }
    cr_expect_not(a.answers.anybody_waits());
    cr_expect_eq(a.answers.heard(), 3);
}

Test(answers, answer_that_is_no_news_is_not_heard)
{
    Asked a;
    Waiter w;
    w.answer.news = false;
    a.ask(w);
    a.send(ServerFrame::reply, w.sequence);
    cr_expect_eq(w.result.get(), CUDA_SUCCESS);
    cr_expect_eq(a.answers.heard(), 0);
}

Test(answers, one_that_nobody_awaits_is_passed_over)
{
    Asked a;
    Waiter w;
    a.ask(w);
    a.send(ServerFrame::reply, w.sequence + 7, "what?");
    a.send(ServerFrame::reply, w.sequence);
    cr_expect_eq(w.result.get(), CUDA_SUCCESS);
}

Test(answers, posted_copy_comes_in_parts_while_nobody_waits)
{
    Asked a;
    char to[6] = "-----";
    const uint32_t sequence = a.copy(to, 4, 5);
    cr_expect(a.answers.copies_under_way() && a.answers.pushes_expected());
    cr_expect_not(a.answers.anybody_waits());
    cr_expect(a.answers.comes_into(to + 3, 1, {}));
    cr_expect_not(a.answers.comes_into(to + 4, 1, {}));
    cr_expect_not(a.answers.comes_into(to, 4, 5), "of that stream");
    a.send(ServerFrame::data, sequence, "ab", 0, 0);
    a.send(ServerFrame::data, sequence, "cd");
    while (a.answers.copies_under_way()) cr_assert(a.answers.read_if_nobody_does());
    cr_expect_str_eq(to, "abcd-");
    cr_expect_not(a.answers.comes_into(to, 4, {}));
}

Test(answers, copy_may_fail_instead_of_coming)
{
    Asked a;
    char to[4];
    a.send(ServerFrame::reply, a.copy(to, 4), "", CUDA_ERROR_INVALID_VALUE);
    while (a.answers.copies_under_way()) a.answers.read_if_nobody_does();
    cr_expect_eq(a.connection.state(), CUDA_SUCCESS);
}

Test(answers, success_without_the_bytes_of_a_copy_loses_the_connection)
{
    Asked a;
    char to[4];
    a.send(ServerFrame::reply, a.copy(to, 4));
    a.expect_lost();
}

Test(answers, copy_that_ends_early_loses_the_connection)
{
    Asked a;
    char to[4];
    a.send(ServerFrame::data, a.copy(to, 4), "abc");
    a.expect_lost();
}

Test(answers, more_bytes_than_the_copy_has_lose_the_connection)
{
    Asked a;
    char to[6] = "-----";
    a.send(ServerFrame::data, a.copy(to, 4), "abcde");
    a.expect_lost();
    cr_expect_str_eq(to, "-----");
}

Test(answers, bytes_for_a_question_lose_the_connection)
{
    Asked a;
    Waiter w;
    a.ask(w);
    a.send(ServerFrame::data, w.sequence, "abc");
    cr_expect_eq(w.result.get(), CUDA_ERROR_EXTERNAL_DEVICE);
    a.expect_lost();
}

Test(answers, all_that_is_awaited_ends_with_the_connection)
{
    Asked a;
    Waiter w[2];
    char to[4];
    for (Waiter &one : w) a.ask(one);
    a.copy(to, sizeof to);
    a.announcements.expect(1);
    a.server = {};
    for (Waiter &one : w) cr_expect_eq(one.result.get(), CUDA_ERROR_EXTERNAL_DEVICE);
    a.expect_lost();
}
