// SPDX-License-Identifier: Apache-2.0
// What Slurm's scripts learn of their job, and what they ask of the pool for it.
#include <criterion/criterion.h>
#include <cstdlib>

#include "slurm/jobs/job.h"

using namespace rgpu;
using namespace rgpu::slurm;

static Job job_with(const char *licences, const char *nodes)
{
    setenv("SLURM_JOB_ID", "17", 1);
    setenv("SLURM_JOB_UID", "1000", 1);
    setenv("SLURM_JOB_USER", "ann", 1);
    setenv("SLURM_JOB_NODELIST", "cn[1-2]", 1);
    setenv("SLURM_JOB_NUM_NODES", nodes, 1);
    setenv("SLURM_JOB_LICENSES", licences, 1);
    auto job = read_job();
    cr_assert(job);
    return *job;
}

Test(job, is_known_only_under_slurm)
{
    unsetenv("SLURM_JOB_ID");
    cr_expect(!read_job());
    setenv("SLURM_JOB_ID", "17; rm", 1);
    cr_expect(!read_job());
}

Test(job, is_ours_by_licences_or_by_job_submits_mark)
{
    cr_expect(!job_with("matlab:1", "1").ours);
    cr_expect(!job_with("(null)", "1").ours);
    cr_expect(job_with("matlab:1,rgpu:100", "1").ours);
    setenv("SPANK_RGPU_NODES", "1", 1);
    cr_expect(job_with("", "1").ours);
}

Test(job, asks_for_what_its_licences_pay)
{
    auto request = request_for(job_with("rgpu:400", "2"), "cn2");
    cr_assert(request);
    cr_expect(request->gpus == 2 && request->share == 100 && request->memory == 0);
    cr_expect(request->owner.uid == 1000 && request->owner.user == "ann" &&
              request->owner.job == "17" && request->owner.node == "cn2");
}

Test(job, an_option_without_a_value_counts_by_being_there)
{
    cr_expect(!job_with("rgpu:100", "1").span);
    setenv("SPANK__SLURM_SPANK_OPTION_rgpu_rgpu_span", "", 1);
    cr_expect(job_with("rgpu:100", "1").span);
}

Test(job, asks_for_the_share_and_memory_of_its_options)
{
    setenv("SPANK__SLURM_SPANK_OPTION_rgpu_rgpu_share", "30-100", 1);
    setenv("SPANK__SLURM_SPANK_OPTION_rgpu_rgpu_mem", "1G", 1);
    auto request = request_for(job_with("rgpu:60", "1"), "cn1");
    cr_assert(request);
    cr_expect(request->gpus == 2 && request->share == 30 && request->most == 100 &&
              request->memory == 1ull << 30);
    setenv("SPANK__SLURM_SPANK_OPTION_rgpu_rgpu_share", "50", 1);
    request = request_for(job_with("rgpu:100", "1"), "cn1");
    cr_assert(request);
    cr_expect(request->gpus == 2 && request->share == 50 && request->most == 50,
              "a share alone is a ceiling, too");
}

Test(job, asks_for_the_kind_that_type_and_options_say)
{
    setenv("SPANK_RGPU_TYPE", "nvidia_h100", 1);
    setenv("SPANK__SLURM_SPANK_OPTION_rgpu_rgpu_min_cc", "9.0", 1);
    setenv("SPANK__SLURM_SPANK_OPTION_rgpu_rgpu_server", "gpu1,gpu2", 1);
    Job job = job_with("rgpu:100", "1");
    cr_expect(job.filters.servers.size() == 2);
    auto request = request_for(job, "cn1");
    cr_assert(request);
    cr_expect(request->filter.names.size() == 1 && request->filter.names[0] == "nvidia h100" &&
              request->filter.compute_capability == 90);
    setenv("SPANK__SLURM_SPANK_OPTION_rgpu_rgpu_min_cc", "nine", 1);
    cr_expect(!read_job());
}

Test(job, knows_a_range_of_nodes)
{
    setenv("SPANK_RGPU_NODES", "1-4", 1);
    setenv("SPANK_RGPU_EACH", "200", 1);
    Job job = job_with("rgpu:800", "3");
    cr_expect(job.most_nodes == 4 && job.each == 200);
    setenv("SPANK_RGPU_NODES", "3", 1);
    cr_expect(job_with("rgpu:600", "3").most_nodes == 0);
}

Test(job, best_effort_holds_one_licence_a_gpu)
{
    setenv("SPANK__SLURM_SPANK_OPTION_rgpu_rgpu_share", "0-100", 1);
    cr_expect(!request_for(job_with("rgpu:4", "2"), "cn1"), "its memory must be said");
    setenv("SPANK__SLURM_SPANK_OPTION_rgpu_rgpu_mem", "1G", 1);
    auto request = request_for(job_with("rgpu:4", "2"), "cn1");
    cr_assert(request);
    cr_expect(request->gpus == 2 && request->share == 0 && request->most == 100);
}

Test(job, tells_its_qos_and_account)
{
    setenv("SLURM_JOB_QOS", "high", 1);
    setenv("SLURM_JOB_ACCOUNT", "physics", 1);
    auto request = request_for(job_with("rgpu:100", "1"), "cn1");
    cr_assert(request);
    cr_expect(request->owner.qos == "high");
    cr_expect(request->owner.account == "physics");
}

Test(job, gets_nothing_for_licences_that_do_not_pay)
{
    cr_expect(!request_for(job_with("rgpu:150", "1"), "cn1"));
    cr_expect(!request_for(job_with("rgpu:100", "2"), "cn1"));
    cr_expect(!request_for(job_with("", "1"), "cn1"));
    cr_expect(!request_for(job_with("rgpu:100", "0"), "cn1"));
}

Test(job, knows_its_run_and_what_is_requeued_with_it)
{
    setenv("SLURM_JOB_RESTART_COUNT", "2", 1);
    Job job = job_with("rgpu:100", "1");
    cr_expect(job.run == 2 && job.whole == "17");
    auto request = request_for(job, "cn1");
    cr_assert(request);
    cr_expect_eq(request->owner.run, 2);
    setenv("SLURM_ARRAY_JOB_ID", "14", 1);
    setenv("SLURM_ARRAY_TASK_ID", "3", 1);
    cr_expect(job_with("rgpu:100", "1").whole == "14_3");
    unsetenv("SLURM_ARRAY_JOB_ID");
    setenv("SLURM_HET_JOB_ID", "16", 1);
    cr_expect(job_with("rgpu:100", "1").whole == "16");
}
