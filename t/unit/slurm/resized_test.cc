// SPDX-License-Identifier: Apache-2.0
// Jobs whose leases have another size than they have paid for.
#include <criterion/criterion.h>

#include "pool.h"
#include "slurm/jobs/resized.h"

using namespace rgpu;
using namespace rgpu::slurm;
using namespace rgpu::slurm::test;

static pool::Lease lease(const char *job, int run, int share, int gpus = 1)
{
    pool::Lease out;
    out.owner.job = job;
    out.owner.run = run;
    pool::Portion portion;
    portion.share = share;
    portion.name = "NVIDIA A100-SXM4-40GB";
    out.gpus.assign(static_cast<size_t>(gpus), portion);
    return out;
}

Test(resized, owes_what_its_leases_have_now)
{
    auto pool = servers({lease("17", 0, 50, 2), lease("18", -1, 30)},
                        {lease("17", 0, 50), lease("19", 0, 0)});
    std::vector<JobRun> runs = {run("17", "RUNNING", 0, 300), run("18", "RUNNING", 0, 30),
                                run("19", "RUNNING", 0, 1)};
    runs[0].types = {{"a100", 300}, {"h100", 100}};
    auto jobs = resized(runs, pool);
    cr_assert_eq(jobs.size(), 1u, "the others have paid for what they have");
    cr_expect(jobs[0].id == "17" && jobs[0].gpus == 3);
    cr_expect(to_text(jobs[0].owes) == "rgpu:150,rgpu_a100:150");
}

Test(resized, is_no_job_that_does_not_run_or_has_no_lease)
{
    auto pool = servers({lease("17", 0, 50), lease("18", 0, 50), lease("19", 0, 50)}, {});
    cr_expect(resized({run("17", "SUSPENDED", 0, 100), run("18", "PENDING", 0, 100),
                       run("19", "RUNNING", 1, 100), run("20", "RUNNING", 0, 100),
                       run("17", "RUNNING", 0, 0)},
                      pool)
                  .empty());
}

Test(resized, owes_nothing_for_a_strangers_lease)
{
    std::vector<JobRun> runs = {run("17", "RUNNING", 0, 100)};
    runs[0].uid = 1001;
    pool::Lease own = lease("17", 0, 100), strangers = lease("17", 0, 1);
    own.owner.uid = 1001, strangers.owner.uid = 1002;
    cr_expect(resized(runs, servers({own, strangers}, {})).empty());
    cr_expect(resized(runs, servers({strangers}, {})).empty());
    own.gpus[0].share = 50;
    auto jobs = resized(runs, servers({own, strangers}, {}));
    cr_assert_eq(jobs.size(), 1u);
    cr_expect(jobs[0].gpus == 1 && to_text(jobs[0].owes) == "rgpu:50");
}

Test(resized, what_slurm_says_of_one_is_read)
{
    auto all = parse_paid("17|2|gres:rgpu:2|rgpu:400,matlab:1|\n18|1|gres/rgpu:a100:1|rgpu:50|\n"
                          "19|1|N/A|(null)|\n");
    cr_assert_eq(all.size(), 3u);
    cr_expect(all[0].id == "17" && all[0].gpus == 4 && all[0].licences == "rgpu:400,matlab:1");
    cr_expect(all[1].gpus == 1 && all[2].gpus == 0);
    cr_expect(parse_paid("").empty());
}
