// SPDX-License-Identifier: Apache-2.0
// What goes on while the program makes no call.
#include "interpose/link/pump.h"

#include "link_support.h"

using namespace rgpu;
using namespace rgpu::interpose;
using test::kCall;
using wire::ServerFrame;

namespace {

// Its thread is never joined: it may look at the parts until the process ends.
struct Pumped : test::Parts {
    Pump pump{connection, calls, answers};

    static Pumped &start()
    {
        static Pumped &p = *new Pumped;
        p.pump.start();
        return p;
    }
};

}  // namespace

Test(pump, gathered_calls_leave_by_themselves)
{
    Pumped &p = Pumped::start();
    for (size_t n = 0; n < 1000; n++) cr_assert_eq(p.put(kCall), CUDA_SUCCESS);
    for (uint32_t n = 1; n <= 1000; n++) cr_expect_eq(p.receive().sequence, n);
}

Test(pump, posted_copy_arrives)
{
    Pumped &p = Pumped::start();
    char to[5] = "----";
    p.put(kCall, "", std::make_unique<Answer>(to, 4, false, 0));
    p.send(ServerFrame::data, p.receive().sequence, "abcd");
    while (p.answers.copies_under_way()) sched_yield();
    cr_expect_str_eq(to, "abcd");
}

Test(pump, it_is_started_once)
{
    Pumped &p = Pumped::start();
    cr_expect(p.pump.ensure());
    cr_expect(p.pump.ensure());
}

// Fails where calls stay in the buffer for somebody who is not there.
Test(pump, what_was_put_before_it_is_started_late_leaves)
{
    Pumped &p = *new Pumped;
    const size_t left = p.put_until_one_stays();
    p.calls.set_watched(false);
    cr_expect(p.pump.ensure());
    for (uint32_t n = 1; n <= left + 1; n++) cr_expect_eq(p.receive().sequence, n);
}
