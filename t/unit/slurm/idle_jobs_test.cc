// SPDX-License-Identifier: Apache-2.0
// Jobs that do not use their GPUs: which they are, and what is done when.
#include "slurm/jobs/idle_jobs.h"

#include <criterion/criterion.h>

using namespace rgpu;
using namespace rgpu::slurm;

static pool::LeaseUsage lease(const char *job, double idle_s, std::vector<int> shares)
{
    pool::LeaseUsage usage;
    usage.owner.job = job;
    usage.idle_s = idle_s;
    for (int share : shares) {
        usage.gpus.emplace_back();
        usage.gpus.back().share = share;
    }
    return usage;
}

static JobRun running(const char *id, unsigned long licences)
{
    JobRun run;
    run.id = run.name = id;
    run.state = "RUNNING";
    run.licences = licences;
    return run;
}

static std::vector<pool::Told<pool::Usages>> told(std::vector<pool::LeaseUsage> one,
                                                  std::vector<pool::LeaseUsage> other)
{
    std::vector<pool::Told<pool::Usages>> all;
    all.push_back({"gpu1", pool::Usages{"gpu1", std::move(one)}});
    all.push_back({"gpu2", pool::Usages{"gpu2", std::move(other)}});
    return all;
}

Test(idle_jobs, are_those_none_of_whose_gpus_was_used)
{
    const auto found = idle_jobs({running("1", 200), running("2", 200)},
                                 told({lease("1", 500, {100}), lease("2", 500, {100})},
                                      {lease("1", 400, {100}), lease("2", 3, {100})}),
                                 100);
    cr_assert_eq(found.size(), 1u, "job 2 has used one of its GPUs 3 s ago");
    cr_expect_eq(found[0].run.id, "1");
    cr_expect_eq(found[0].gpus, 2);
    cr_expect_eq(found[0].idle_s, 400);
}

Test(idle_jobs, are_none_whose_leases_are_not_all_told)
{
    cr_expect(idle_jobs({running("1", 200)}, told({lease("1", 500, {100})}, {}), 100).empty(),
              "a silent server may have the other GPU");
    auto usages = told({lease("1", 500, {100})}, {});
    usages[1].answer = error(ErrorKind::disconnected, "away");
    cr_expect_eq(idle_jobs({running("1", 100)}, usages, 100).size(), 1u, "it has all that it paid");
    JobRun pending = running("1", 100);
    pending.state = "COMPLETING";
    cr_expect(idle_jobs({pending}, usages, 100).empty());
}

Test(idle_jobs, are_warned_before_they_are_ended)
{
    PoolConfig config;
    cr_expect_eq(idle_fate(config, 1e6, false), IdleFate::leave, "nothing is configured");
    config.idle_warn = Milliseconds(60'000), config.idle_end = Milliseconds(120'000);
    cr_expect_eq(idle_fate(config, 59, false), IdleFate::leave);
    cr_expect_eq(idle_fate(config, 61, false), IdleFate::warn);
    cr_expect_eq(idle_fate(config, 61, true), IdleFate::leave, "once is enough");
    cr_expect_eq(idle_fate(config, 500, false), IdleFate::warn, "no sync looked for long");
    cr_expect_eq(idle_fate(config, 121, true), IdleFate::end);
    config.idle_warn = Milliseconds(0);
    cr_expect_eq(idle_fate(config, 121, false), IdleFate::warn, "also without idle_warn");
    config.idle_warn = Milliseconds(60'000), config.idle_end = Milliseconds(0);
    cr_expect_eq(idle_fate(config, 1e6, true), IdleFate::leave, "none is ended");
}

Test(idle_jobs, are_told_in_words)
{
    PoolConfig config;
    config.idle_warn = Milliseconds(60'000), config.idle_end = Milliseconds(7'200'000);
    const IdleJob job{running("17", 100), 1, 1900};
    cr_expect_eq(idle_warning(config, job),
                 "job 17 has not used its GPU for 31m; after 2h without use it is requeued and "
                 "held, or cancelled");
    cr_expect_eq(idle_note(job, "cancelled"), "it did not use its GPU for 31m: cancelled");
    config.idle_end = Milliseconds(0);
    cr_expect(idle_warning(config, job).ends_with("and others wait for what nobody uses"));
}

Test(idle_jobs, that_were_warned_are_kept_in_a_file)
{
    JobRun run = running("17", 100);
    run.restarts = 2;
    const std::set<std::string> warned = {"16 0", run_key(run)};
    cr_expect(parse_warned(format_warned(warned)) == warned);
    cr_expect(parse_warned("something else\n17 0\n").empty());
    cr_expect(parse_warned("").empty());
}
