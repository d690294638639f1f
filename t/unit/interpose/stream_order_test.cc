// SPDX-License-Identifier: Apache-2.0
// What streams know of each other's work.
#include "interpose/state/stream_order.h"

#include <criterion/criterion.h>

using rgpu::interpose::StreamOrder;

Test(stream_order, a_wait_for_an_event_knows_what_the_stream_freed_before_its_record)
{
    StreamOrder o;
    const auto first = o.freed(1);
    o.records(10, 1);
    const auto second = o.freed(1);
    o.waits(2, o.seen(10).view);
    cr_assert_eq(o.before(2).at(1), first);
    cr_assert_lt(first, second);
    cr_assert_eq(o.behind(1).at(1), second);
}

Test(stream_order, what_a_stream_waited_for_is_known_behind_it)
{
    StreamOrder o;
    const auto first = o.freed(1);
    o.records(10, 1);
    o.waits(2, o.seen(10).view);
    o.records(11, 2);
    o.waits(3, o.seen(11).view);
    cr_assert_eq(o.before(3).at(1), first);
}

Test(stream_order, an_event_that_was_recorded_again_says_nothing)
{
    StreamOrder o;
    o.freed(1);
    o.records(10, 1);
    const auto seen = o.seen(10);
    cr_assert(o.is_so(10, seen));
    o.records(10, 2);  // a stream that has freed nothing
    cr_assert(!o.is_so(10, seen));
    cr_assert(!o.seen(10).record);
    o.records(10, 1);
    cr_assert(!o.is_so(10, seen));
    o.forget_event(10);
    cr_assert(!o.seen(10).record);
}

Test(stream_order, tables_do_not_grow_without_an_end)
{
    StreamOrder o;
    o.freed(1);
    for (uint64_t e = 0; e < 100'000; e++) o.records(e, 1);
    for (uint64_t s = 2; s < 100'000; s++) o.waits(s, {{1, 1}});
    cr_assert(o.seen(99'999).record);
    cr_assert(o.before(5).empty() || o.before(99'999).contains(1));
    o.settled(1);
    cr_assert(o.behind(99'999).empty());
}
