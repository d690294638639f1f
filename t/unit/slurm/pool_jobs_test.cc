// SPDX-License-Identifier: Apache-2.0
// What squeue says of jobs that hold or want GPUs of the pool.
#include "slurm/jobs/pool_jobs.h"

#include <criterion/criterion.h>

using namespace rgpu::slurm;

namespace {

PoolJob holds(const char *id, unsigned long licences, int64_t end)
{
    PoolJob job;
    job.id = id, job.state = "RUNNING", job.licences.sum = licences, job.end = end;
    return job;
}

}  // namespace

Test(pool_jobs, are_read_as_squeue_prints_them)
{
    const auto jobs = parse_pool_jobs(
        "14_3|ann|PENDING|Licenses|2026-11-25T01:00:00|N/A|N/A|2|spare|1|1|rgpu:200,rgpu_h100:200|"
        "gres/rgpu:h100:2|null\x1f\n"
        "9|bob|RUNNING|None|2026-11-25T00:00:00|2026-11-25T00:00:09|2026-11-25T02:00:09|1|b|1|0|"
        "rgpu:50|"
        "gres:rgpu:1|note of mine | rgpu: a|b\x1f\n");
    cr_assert_eq(jobs.size(), 2);
    const PoolJob &a = jobs[0], &b = jobs[1];
    cr_expect(a.id == "14_3" && a.user == "ann" && a.waits() && !a.holds());
    cr_expect(a.start == 0 && a.end == 0 && a.submitted != 0);
    cr_expect(a.nodes == 2 && a.gpus == 2 && a.type == "h100" && a.licences.sum == 200);
    cr_expect_eq(a.share(), 50, "200 hundredths are halves of 2 GPUs on 2 nodes");
    cr_expect(a.qos == "spare" && a.requeues && b.qos == "b" && !b.requeues);
    cr_expect(b.holds() && b.end - b.start == 7200 && b.share() == 50);
    cr_expect_str_eq(b.comment.c_str(), "note of mine | rgpu: a|b");
}

Test(pool_jobs, what_is_no_line_of_squeue_is_none)
{
    cr_expect(parse_pool_jobs("").empty());
    cr_expect(parse_pool_jobs("slurm_load_jobs error: Invalid job id specified\n").empty());
    const auto none = parse_pool_jobs("1|a|PENDING|None|?|?|?|x||||||\x1f");
    cr_assert_eq(none.size(), 1);
    cr_expect(none[0].nodes == 1 && none[0].gpus == 0 && none[0].share() == 100);
}

Test(pool_jobs, enough_is_free_when_the_last_one_needed_ends)
{
    const std::vector<PoolJob> holders = {holds("1", 100, 300), holds("2", 100, 100),
                                          holds("3", 200, 200), holds("4", 800, 0)};
    cr_expect_str_eq(enough_after(holders, 50)->id.c_str(), "2");
    cr_expect_str_eq(enough_after(holders, 101)->id.c_str(), "3");
    cr_expect_str_eq(enough_after(holders, 400)->id.c_str(), "1");
    cr_expect_null(enough_after(holders, 401), "one of them has no time limit");
}

Test(pool_jobs, slurms_reasons_are_explained)
{
    cr_expect(obstacle_of("Licenses") == Obstacle::gpus);
    cr_expect(obstacle_of("Resources") == Obstacle::nodes);
    cr_expect(obstacle_of("QOSMaxGRESPerUser") == Obstacle::limit);
    cr_expect(obstacle_of("AssocGrpLicenses") == Obstacle::limit);
    cr_expect(obstacle_of("JobHeldUser") == Obstacle::held);
    cr_expect(obstacle_of("Dependency") == Obstacle::time);
    cr_expect(obstacle_of("SomethingNew") == Obstacle::other);
    cr_expect(explain(Obstacle::limit, "QOSMaxGRESPerUser").find("QOSMaxGRESPerUser") !=
              std::string::npos);
    cr_expect(explain(Obstacle::other, "None").find("not looked") != std::string::npos);
}

Test(pool_jobs, their_users_are_told_of_quotas)
{
    PoolJob job = holds("9", 100, 0);
    cr_expect(about_quota(job, true).empty());
    job.state = "PENDING", job.reason = "QOSGrpLicense", job.qos = "b";
    cr_expect(about_quota(job, false) ==
              "the jobs of its QOS, b, have all GPUs that they may have together");
    cr_expect(about_quota(job, true).find("idle ones are for batch jobs") != std::string::npos);
    job.requeues = true;
    cr_expect(about_quota(job, true).find("starts beside them as soon as") != std::string::npos);
    job.reason = "Licenses";
    cr_expect(about_quota(job, true).empty());
    job.qos = "spare";
    job.comment = "rgpu: uses what is over, in place of QOS b since 2026-11-22T02:00:00Z";
    cr_expect(
        about_quota(job, true).starts_with("it may use what is over of the pool (QOS spare, in "
                                           "place of its own, b)"));
    job.state = "RUNNING";
    cr_expect(about_quota(job, true).starts_with("it uses what is over"));
    job.state = "CONFIGURING";
    cr_expect(job.prolog_note().empty(), "the mark is no note of its prolog");
    job.comment += "; waits for 1 GPU";
    cr_expect(job.prolog_note() == "waits for 1 GPU");
}
