// SPDX-License-Identifier: Apache-2.0
// The lease and the GPUs of it that a client names.
#include <criterion/criterion.h>

#include "wire/lease_name.h"

using namespace rgpu::wire;

Test(lease_name, reads_what_it_writes)
{
    cr_expect(to_text({"abc", {}}) == "abc" && to_text({"abc", {2, 0, 35}}) == "abc/20z");
    auto all = parse_lease_name("abc");
    cr_expect(all && all->lease == "abc" && all->gpus.empty());
    auto some = parse_lease_name("abc/20z");
    cr_expect(some && some->lease == "abc" && some->gpus == (std::vector<int>{2, 0, 35}));
}

Test(lease_name, refuses_garbage)
{
    for (const char *text : {"abc/00", "abc/A", "abc/1/2", "abc/ ", "abc/-1"})
        cr_expect(!parse_lease_name(text), "'%s' was taken", text);
}
