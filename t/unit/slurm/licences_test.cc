// SPDX-License-Identifier: Apache-2.0
// Licence strings.
#include <criterion/criterion.h>

#include "slurm/terms/licences.h"

using namespace rgpu;
using namespace rgpu::slurm;

Test(licences, counts_hundredths_of_all_nodes)
{
    cr_expect(licences_for(2, 100, 1) == 200);
    cr_expect(licences_for(1, 30, 4) == 120);
    cr_expect(licences_for(1000000, 100, 65536) == 6553600000000ul);
}

Test(licences, reads_its_own_count)
{
    cr_expect(rgpu_licences("rgpu:200") == 200);
    cr_expect(rgpu_licences("matlab:1,rgpu:30,x") == 30);
    cr_expect(rgpu_licences("rgpu@db:200") == 200);
    cr_expect(rgpu_licences("rgpu") == 1);
    cr_expect(rgpu_licences("rgpux:200,matlab") == 0);
    cr_expect(rgpu_licences("rgpu:x") == 0);
    cr_expect(rgpu_licences("") == 0);
    cr_expect(rgpu_licences("(null)") == 0);
}

static void expect_merged(const char *user, unsigned long count, const char *merged)
{
    auto got = with_rgpu(user, {count, {}});
    cr_assert(got);
    cr_expect(*got == merged, "'%s' gave '%s', not '%s'", user, got->c_str(), merged);
}

Test(licences, keeps_the_users_own_and_replaces_a_forged_rgpu)
{
    expect_merged("", 200, "rgpu:200");
    expect_merged("matlab:1", 200, "matlab:1,rgpu:200");
    expect_merged("rgpu:1,matlab@db:1", 200, "matlab@db:1,rgpu:200");
    expect_merged("rgpu:1,rgpu:2", 200, "rgpu:200");
    expect_merged("rgpu*5", 200, "rgpu:200");
    expect_merged("matlab:1,rgpu:200", 0, "matlab:1");
    expect_merged(",,matlab,", 100, "matlab,rgpu:100");
}

Test(licences, refuses_alternatives) { cr_expect(!with_rgpu("matlab|octave", {100, {}})); }

Test(licences, reads_and_writes_those_of_types)
{
    const char *all = "matlab:1,rgpu:300,rgpu_a100:200,rgpu_h100:100";
    OwnLicences own = own_licences(all);
    cr_expect(own.sum == 300 && own.types.size() == 2 && own.types["a100"] == 200);
    cr_expect(to_text(own) == "rgpu:300,rgpu_a100:200,rgpu_h100:100");
    cr_expect(rgpu_licences(all) == 300, "the sum alone");
    cr_expect(types_sold(all) == std::vector<std::string>({"a100", "h100"}));
    cr_expect(own_licences("rgpu_:5,rgpux:3").types.empty());
    cr_expect(names_rgpu("rgpu_a100:1") && !names_rgpu("rgpux:1"));
    cr_expect(all_of_types(200, {"a100"}) == own_licences("rgpu:200,rgpu_a100:200"));
    cr_expect(to_text({0, {}}).empty());
    auto merged = with_rgpu("rgpu_h100:900,matlab:1", {100, {{"a100", 100}}});
    cr_expect(merged && *merged == "matlab:1,rgpu:100,rgpu_a100:100", "a forged type is replaced");
}
