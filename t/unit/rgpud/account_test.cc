// SPDX-License-Identifier: Apache-2.0
#include "rgpud/host/account.h"

#include <criterion/criterion.h>
#include <pwd.h>

#include "rgpud/workers/tenants.h"

using namespace rgpu;
using namespace rgpu::serverd;

Test(account, root_and_strangers_have_none)
{
    RgpudConfig config;
    cr_assert_not(worker_account(0, config).has_value());
    cr_assert_not(worker_account(4000000000u, config).has_value());
}

Test(account, root_has_that_of_worker_user_and_nobody_else_has)
{
    RgpudConfig config;
    config.worker_user = "nobody";
    const auto nobody = account_named("nobody");
    cr_assert(nobody.has_value());
    cr_assert_eq(worker_account(0, config)->uid, nobody->uid);
    cr_assert_not(worker_account(4000000000u, config).has_value());
    config.worker_user = "no-such-user";
    cr_assert_not(worker_account(0, config).has_value());
}

Test(account, a_user_has_his_own_and_a_system_account_none)
{
    RgpudConfig config;
    const auto nobody = account_named("nobody");
    cr_assert_eq(worker_account(nobody->uid, config)->uid, nobody->uid);
    cr_assert_not(worker_account(getpwnam("daemon")->pw_uid, config).has_value());
}

Test(account, a_tenant_is_a_job_of_an_owner_or_a_lease)
{
    pool::Lease one, other;
    one.id = "1", other.id = "2";
    one.owner.uid = other.owner.uid = 5000;
    cr_assert_neq(Tenants::key_of(one), Tenants::key_of(other));
    one.owner.job = other.owner.job = "17";
    cr_assert_eq(Tenants::key_of(one), Tenants::key_of(other));
    other.owner.uid = 5001;
    cr_assert_neq(Tenants::key_of(one), Tenants::key_of(other));
}

Test(account, without_a_spawner_all_are_our_own_user)
{
    Tenants tenants(RgpudConfig(), nullptr);
    pool::Lease lease;
    lease.id = "1";
    lease.owner.uid = 4000000000u;
    const auto group = tenants.of(lease, {"null"}, 1);
    cr_assert(group.has_value());
    cr_assert_eq(group->account.uid, geteuid());
    cr_assert(tenants.gone("1"));
}
