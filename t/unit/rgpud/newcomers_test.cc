// SPDX-License-Identifier: Apache-2.0
// Which connection makes room for one more.
#include "rgpud/ports/newcomers.h"

#include <criterion/criterion.h>

using namespace rgpu::serverd;

Test(newcomers, there_is_room_until_an_address_has_its_limit)
{
    Newcomers some(2);
    uint64_t first = some.add("a");
    cr_expect(!some.in_the_way_of("a", false));
    some.add("a");
    cr_expect_eq(some.in_the_way_of("a", false).value_or(0), first);
    cr_expect(!some.in_the_way_of("b", false));
}

Test(newcomers, where_there_is_no_room_the_most_crowded_address_gives_up_its_oldest)
{
    Newcomers some(100);
    some.add("quiet");
    uint64_t first = some.add("loud");
    uint64_t second = some.add("loud");
    cr_expect_eq(some.in_the_way_of("quiet", true).value_or(0), first);
    cr_expect_eq(some.in_the_way_of("another", true).value_or(0), first);
    some.remove(first);
    cr_expect_eq(some.in_the_way_of("another", true).value_or(0), 1u,
                 "the older of two that have as many");
    some.remove(1);
    cr_expect_eq(some.in_the_way_of("another", true).value_or(0), second);
    some.remove(second);
    cr_expect(!some.in_the_way_of("another", true));
    cr_expect_eq(some.size(), 0u);
    some.remove(second);
}
