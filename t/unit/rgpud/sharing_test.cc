// SPDX-License-Identifier: Apache-2.0
// What `rgpu top` is told of the tenants of each GPU.
#include "rgpud/host/sharing.h"

#include <criterion/criterion.h>

#include <cstring>

using namespace rgpu;
using namespace rgpu::serverd;

namespace {

constexpr char kLease[] = "0123456789abcdef0123456789abcdef", kOthers[] = "ffff";

share::TenantView tenant(const char *lease)
{
    share::TenantView t{};
    memcpy(t.lease, lease, std::min(strlen(lease), sizeof t.lease));
    t.terms.weight = 250;
    t.workers = 3, t.holds = true, t.given_10s = 0.5, t.memory = -1;
    return t;
}

std::vector<pool::GpuState> gpus()
{
    std::vector<pool::GpuState> all(2);
    all[0].index = 4, all[0].uuid = "GPU-a";
    all[1].index = 7, all[1].uuid = "GPU-b";
    return all;
}

pool::Lease lease()
{
    pool::Lease l;
    l.id = kLease, l.owner.user = "ada";
    l.gpus.resize(2);
    l.gpus[0].uuid = "GPU-a", l.gpus[0].memory = 1000;
    l.gpus[1].uuid = "GPU-b", l.gpus[1].memory = 2000;
    return l;
}

}  // namespace

Test(sharing, each_gpu_has_its_number_and_its_tenants_figures)
{
    const auto told = describe({{"GPU-b", {tenant(kLease)}}, {"GPU-a", {}}}, "host", gpus(), {});
    cr_assert_eq(told.name, "host");
    cr_assert_eq(told.gpus.size(), 2);
    cr_expect(told.gpus[0].uuid == "GPU-b" && told.gpus[0].index == 7);
    cr_expect(told.gpus[1].index == 4 && told.gpus[1].tenants.empty());
    cr_assert_eq(told.gpus[0].tenants.size(), 1);
    const pool::TenantShare &t = told.gpus[0].tenants[0];
    cr_expect(t.workers == 3 && t.running && t.given_10s == 0.5);
    cr_expect_float_eq(t.weight, 2.5, 1e-9);
    cr_expect_eq(t.memory_used, 0, "less than nothing is not told");
}

Test(sharing, whose_a_tenant_is_stands_in_leases_that_the_asker_sees)
{
    const std::vector<Boards::Gpu> boards = {{"GPU-a", {tenant(kLease), tenant(kOthers)}},
                                             {"GPU-b", {tenant(kLease)}}};
    const auto told = describe(boards, "host", gpus(), {lease()});
    const auto &first = told.gpus[0].tenants;
    cr_expect(first[0].lease == kLease && first[0].owner.user == "ada");
    cr_expect_eq(first[0].memory, 1000, "its part of this GPU");
    cr_expect(first[1].lease.empty() && first[1].owner.user.empty() && first[1].memory == 0);
    cr_expect_eq(first[1].workers, 3, "its figures are nobody's secret");
    cr_expect_eq(told.gpus[1].tenants[0].memory, 2000);
    const auto blind = describe(boards, "host", gpus(), {});
    cr_expect(blind.gpus[0].tenants[0].lease.empty() &&
              blind.gpus[0].tenants[0].owner.user.empty());
}
