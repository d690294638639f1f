// SPDX-License-Identifier: Apache-2.0
// Node lists as Slurm writes them.
#include <criterion/criterion.h>

#include "slurm/conf/hostlist.h"

using namespace rgpu;
using namespace rgpu::slurm;

static void expect(const char *list, const char *names)
{
    auto got = expand_hostlist(list);
    cr_assert(got, "'%s' was refused", list);
    std::string joined;
    for (const std::string &name : *got) joined += (joined.empty() ? "" : " ") + name;
    cr_expect(joined == names, "'%s' gave '%s'", list, joined.c_str());
}

Test(hostlist, expands_ranges_in_order)
{
    expect("cn1", "cn1");
    expect("cn[1-3]", "cn1 cn2 cn3");
    expect("cn[1-2,7],gpu1", "cn1 cn2 cn7 gpu1");
    expect("a[1,3]b,c", "a1b a3b c");
    expect("", "");
}

Test(hostlist, keeps_leading_zeros) { expect("cn[008-011]", "cn008 cn009 cn010 cn011"); }

Test(hostlist, multiplies_brackets) { expect("r[1-2]n[1-2]", "r1n1 r1n2 r2n1 r2n2"); }

Test(hostlist, refuses_what_is_none)
{
    for (const char *list : {"cn[1-", "cn[2-1]", "cn]", "cn[]", "cn[a-b]", "cn[1-99999999]", ",",
                             "cn[1-2]x[", "a[0-9999]b[0-9999]"})
        cr_expect(!expand_hostlist(list), "'%s' was taken", list);
}
