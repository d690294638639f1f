// SPDX-License-Identifier: Apache-2.0
// Runs of jobs against leases of them.
#include <criterion/criterion.h>

#include "pool.h"
#include "slurm/jobs/runs.h"

using namespace rgpu;
using namespace rgpu::slurm;
using namespace rgpu::slurm::test;

static pool::Lease lease(const char *id, const char *job, int run, int share = 100, int gpus = 1)
{
    pool::Lease out;
    out.id = id;
    out.owner.job = job;
    out.owner.run = run;
    for (int i = 0; i < gpus; ++i) {
        pool::Portion portion;
        portion.share = share;
        out.gpus.push_back(portion);
    }
    return out;
}

static std::string ids(const std::vector<JobRun> &runs)
{
    std::string out;
    for (const JobRun &run : runs) out += run.id + " ";
    return out;
}

Test(runs, are_read_from_squeue)
{
    auto runs = parse_runs("17|17|RUNNING|0|rgpu:200,matlab:1|\n19|14_3|PENDING|2|(null)|\n23|22+1|"
                           "SUSPENDED|1|rgpu:50|\n");
    cr_assert_eq(runs.size(), 3u);
    cr_expect(runs[0].id == "17" && runs[0].runs() && runs[0].restarts == 0 &&
              runs[0].licences == 200 && runs[0].whole() == "17");
    cr_expect(runs[1].id == "19" && !runs[1].runs() && runs[1].restarts == 2 &&
              runs[1].licences == 0 && runs[1].whole() == "14_3");
    cr_expect(runs[2].runs() && runs[2].whole() == "22" && runs[2].licences == 50);
    cr_expect(parse_runs("").empty());
}

Test(runs, a_lease_in_the_name_of_a_strangers_job_is_not_that_jobs)
{
    auto runs = parse_runs("17|17|RUNNING|0|rgpu:100|1001|\n");
    cr_assert_eq(runs.size(), 1u);
    cr_expect(runs[0].uid == 1001u);
    pool::Lease own = lease("a", "17", 0), strangers = lease("b", "17", 0);
    own.owner.uid = 1001, strangers.owner.uid = 1002;
    strangers.expires_in = Milliseconds(1000);
    cr_expect(is_of_run(own, runs[0]) && !is_of_run(strangers, runs[0]));
    cr_expect(!is_of_job(strangers, runs[0]));
    cr_expect(leases_to_renew(runs, servers({own, strangers}, {})).empty());
    cr_expect(runs_that_miss(runs, servers({own}, {})).empty());
    cr_expect_eq(runs_that_miss(runs, servers({strangers}, {})).size(), 1u);
}

Test(runs, leases_of_runs_before_are_stale)
{
    auto stale = stale_leases(
        {run("17", "RUNNING", 1, 100), run("18", "PENDING", 3, 100), run("19", "RUNNING", 0, 100)},
        servers(
            {lease("a", "17", 0), lease("b", "18", 2), lease("c", "19", 0)},
            {lease("d", "17", 1), lease("e", "18", -1), lease("f", "20", 0), lease("g", "", -1)}));
    cr_assert_eq(stale.size(), 2u);
    cr_expect(stale[0].server == "gpu1" && stale[0].lease == "a" && stale[0].job == "17");
    cr_expect(stale[1].lease == "b" && stale[1].job == "18",
              "e is of nobody knows which run, f of a job that Slurm does not name");
}

Test(runs, leases_with_a_term_are_renewed_while_their_run_lasts)
{
    pool::Inventories some =
        servers({lease("a", "17", 0), lease("b", "18", 0), lease("c", "19", 0)},
                {lease("d", "17", 1), lease("e", "20", 0)});
    for (auto &told : some)
        for (size_t i = 0; told.answer && i < told.answer->leases.size(); ++i)
            if (told.answer->leases[i].id != "b")
                told.answer->leases[i].expires_in = std::chrono::seconds(30);
    auto renewed = leases_to_renew({run("17", "RUNNING", 1, 100), run("18", "RUNNING", 0, 100),
                                    run("19", "CONFIGURING", 0, 100)},
                                   some);
    cr_assert_eq(renewed.size(), 2u,
                 "a is of the run before, b has no term, and Slurm knows no job 20");
    cr_expect(renewed[0].server == "gpu1" && renewed[0].lease == "c" &&
              renewed[1].server == "gpu2" && renewed[1].lease == "d");
}

Test(runs, a_job_misses_what_it_paid_for_and_nobody_has)
{
    pool::Inventories some =
        servers({lease("a", "17", 0, 50, 2), lease("b", "18", 0)},
                {lease("c", "18", 0), lease("d", "19", 0), lease("e", "21", 0, 0)});
    auto of = [&](std::vector<JobRun> runs) { return ids(runs_that_miss(runs, some)); };
    cr_expect(of({run("17", "RUNNING", 0, 100), run("18", "RUNNING", 0, 200)}) == "");
    cr_expect(of({run("17", "RUNNING", 0, 200), run("18", "SUSPENDED", 0, 300)}) == "17 18 ");
    cr_expect(of({run("20", "RUNNING", 0, 100), run("22", "RUNNING", 0, 0)}) == "20 ",
              "a job without licences misses nothing");
    for (const char *state : {"CONFIGURING", "COMPLETING", "PENDING"})
        cr_expect(of({run("20", state, 0, 100)}) == "", "%s", state);
    cr_expect(of({run("19", "RUNNING", 1, 100)}) == "19 ", "a lease of the run before is not its");
    cr_expect(of({run("21", "RUNNING", 0, 1)}) == "", "a share that begins at 0 costs one licence");
}
