// SPDX-License-Identifier: Apache-2.0
// Who may lend, and how many leases of a job ended with a lend.
#include "rgpud/leases/lending.h"

#include <criterion/criterion.h>

using namespace rgpu;
using namespace rgpu::serverd;

static const Time kStart = Time(Milliseconds(1000000));
static const pool::Caller kAdmin{0, true}, kUser{1000, false};

static Lending lending(const char *lend)
{
    RgpudConfig config;
    config.lend = lend;
    pool::GpuState gpu;
    gpu.uuid = "GPU-0";
    return Lending(config, {gpu}, kStart);
}

static pool::Lease of_job(const char *job)
{
    pool::Lease lease;
    lease.owner.job = job;
    return lease;
}

Test(lending, is_for_administrators)
{
    Lending jobs = lending("jobs");
    cr_assert(!jobs.lend(kUser, {{"GPU-0"}, Milliseconds(0), {}}, kStart));
    auto lent = jobs.lend(kAdmin, {{"GPU-0"}, Milliseconds(0), {}}, kStart);
    cr_assert(lent.has_value());
    cr_expect_eq(jobs.lent(), (std::set<std::string>{"GPU-0"}));
    cr_expect_eq(jobs.secret(lent->id), lent->secret);
    cr_expect(!jobs.withdraw(kUser, lent->id, kStart));
    cr_expect(jobs.withdraw(kAdmin, lent->id, kStart).has_value());
    auto again = jobs.withdraw(kAdmin, lent->id, kStart);
    cr_expect(!again && again.error().kind == ErrorKind::unsupported);
    cr_expect(jobs.lent().empty());
}

Test(lending, is_refused_where_all_gpus_are_in_the_pool)
{
    Lending none = lending("");
    cr_expect(!none && none.due(kStart).empty() && none.expire(kStart).empty());
    auto refused = none.lend(kAdmin, {{"GPU-0"}, Milliseconds(0), {}}, kStart);
    cr_assert(!refused && refused.error().kind == ErrorKind::invalid);
    cr_expect(!none.withdraw(kAdmin, "x", kStart) && !none.lost("x", kStart));
}

Test(lending, leases_that_ended_with_a_lend_are_told_once_by_job)
{
    Lending jobs = lending("jobs");
    jobs.count({of_job("17"), of_job("17"), of_job("18"), of_job("")});
    cr_expect_eq(jobs.take_count("17"), 2);
    cr_expect_eq(jobs.take_count("17"), 0);
    cr_expect_eq(jobs.take_count(""), 0, "a lease of no job");
    cr_expect_eq(jobs.take_count("18"), 1);
}

Test(lending, remembers_no_endless_number_of_jobs)
{
    Lending jobs = lending("jobs");
    for (int i = 0; i < 5000; i++) jobs.count({of_job(std::to_string(i).c_str())});
    jobs.count({of_job("0")});
    cr_expect_eq(jobs.take_count("0"), 2, "a job that is known is still counted");
    cr_expect_eq(jobs.take_count("4999"), 0);
}
