// SPDX-License-Identifier: Apache-2.0
// What a server sends that answers nothing.
#include "interpose/link/announcements.h"

#include <criterion/criterion.h>
// Behind the one above.
#include <criterion/redirect.h>

#include "link_support.h"

using namespace rgpu;
using namespace rgpu::interpose;
using wire::ServerFrame;

namespace {

struct Heard : test::Parts {
    void hear()
    {
        while (reader.input_is_there()) answers.read_if_nobody_does();
    }
    void send_due(uint64_t token, uint32_t status)
    {
        send(ServerFrame::callback, 0,
             std::string(reinterpret_cast<const char *>(&token), sizeof token), status);
    }
    void expect_lost()
    {
        answers.read_if_nobody_does();
        cr_expect_eq(connection.state(), CUDA_ERROR_EXTERNAL_DEVICE);
    }
};

}  // namespace

Test(announcements, host_functions_are_due_with_their_status)
{
    Heard h;
    h.announcements.expect(3);
    h.announcements.expect_fewer(1);
    h.send_due(7, CUDA_SUCCESS);
    h.hear();
    cr_expect(h.answers.pushes_expected());
    h.send_due(8, CUDA_ERROR_LAUNCH_FAILED);
    h.hear();
    cr_expect_not(h.answers.pushes_expected());
    cr_assert_eq(h.due_functions.size(), 2);
    cr_expect(h.due_functions[0] == (std::pair<uint64_t, uint32_t>{7, CUDA_SUCCESS}));
    cr_expect(h.due_functions[1] == (std::pair<uint64_t, uint32_t>{8, CUDA_ERROR_LAUNCH_FAILED}));
    cr_expect_eq(h.answers.heard(), 2);
}

Test(announcements, one_that_nobody_expected_is_not_counted)
{
    Heard h;
    h.send_due(7, CUDA_SUCCESS);
    h.hear();
    cr_expect_not(h.answers.pushes_expected());
    h.announcements.expect(1);
    cr_expect(h.answers.pushes_expected());
}

Test(announcements, text_goes_to_standard_output, .init = cr_redirect_stdout)
{
    Heard h;
    h.send(ServerFrame::text, 0, "a kernel says so\n");
    h.hear();
    cr_expect_stdout_eq_str("a kernel says so\n");
    cr_expect_eq(h.answers.heard(), 0);
}

Test(announcements, link_is_told_to_the_packing)
{
    Heard h;
    Packing packing(false);
    bool changed = false;
    packing.when_link_changes([&] { changed = true; });
    h.announcements.use(packing);
    h.send(ServerFrame::link, 0, "12345678");
    h.hear();
    cr_expect(changed);
}

Test(announcements, callback_of_another_size_loses_the_connection)
{
    Heard h;
    h.send(ServerFrame::callback, 0, "1234567");
    h.expect_lost();
    cr_expect(h.due_functions.empty());
}

Test(announcements, word_about_the_link_where_nothing_is_packed_loses_the_connection)
{
    Heard h;
    h.send(ServerFrame::link, 0, "12345678");
    h.expect_lost();
}

Test(announcements, frame_of_no_kind_loses_the_connection)
{
    Heard h;
    h.send(static_cast<ServerFrame>(99), 0);
    h.expect_lost();
}
