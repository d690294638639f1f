// SPDX-License-Identifier: Apache-2.0
// What [slurm] over_quota needs of Slurm.
#include "slurm/check/quotas.h"

#include <criterion/criterion.h>

using namespace rgpu::slurm;

static constexpr char kRight[] = "PreemptType             = preempt/qos\n"
                                 "AccountingStorageEnforce = associations,limits,qos\n";
static const std::vector<Qos> kQuotas = {{"spare", 0, {}, {}}, {"a", 100, {"spare"}, 200}};

Test(check_quotas, nothing_is_wrong_where_all_is_there)
{
    cr_expect(compare_quotas(kRight, kQuotas, 3).empty());
}

Test(check_quotas, each_thing_that_lacks_is_named)
{
    auto found = compare_quotas("PreemptType = preempt/none\nAccountingStorageEnforce = none\n",
                                std::vector<Qos>{{"spare", 0, {}, {}}, {"a", 100, {}, 200}}, {});
    cr_assert_eq(found.size(), 4u);
    const char *of[] = {"PreemptType", "AccountingStorageEnforce", "the QOS", "rgpu slurm preempt"};
    for (size_t i = 0; i < 4; ++i) {
        cr_expect_str_eq(found[i].of.c_str(), of[i]);
        cr_expect(!found[i].cure.empty() && found[i].check == "over_quota");
    }
    cr_expect_str_eq(found[3].found.c_str(), "it has not run yet");
    found = compare_quotas(kRight, {}, 600);
    cr_assert_eq(found.size(), 2u);
    cr_expect_str_eq(found[0].of.c_str(), "sacctmgr");
    cr_expect_str_eq(found[1].found.c_str(), "it ran last 10m ago");
}
