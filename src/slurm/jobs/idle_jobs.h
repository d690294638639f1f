// SPDX-License-Identifier: Apache-2.0
// Jobs that hold GPUs of the pool and do not use them: what [pool] of rgpu.conf does about them.
// Pure functions.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "pool/client/client.h"
#include "slurm/jobs/runs.h"

namespace rgpu::slurm {

struct IdleJob {
    JobRun run;
    int gpus = 0;
    double idle_s = 0;  // since one of its GPUs was used last
};

// Running jobs of which no GPU was used for so long. A job whose leases are not all told, as one of
// its servers is silent, is none.
std::vector<IdleJob> idle_jobs(const std::vector<JobRun> &runs,
                               const std::vector<pool::Told<pool::Usages>> &usages, double least_s);

// From when on a job counts as idle; 0: none ever does.
Milliseconds idle_from(const PoolConfig &config);

// No job is ended that was not warned before, by an earlier run of rgpu slurm sync.
enum class IdleFate { leave, warn, end };
IdleFate idle_fate(const PoolConfig &config, double idle_s, bool warned);

// What is said to the job: in its output before, and in its AdminComment when it is ended.
std::string idle_warning(const PoolConfig &config, const IdleJob &job);
std::string idle_note(const IdleJob &job, const std::string &done);

// Runs that were warned: "17 0" is job 17 that was never restarted. The text of the file that keeps
// them between two runs of sync; what is no such file has none.
std::string run_key(const JobRun &run);
std::string format_warned(const std::set<std::string> &warned);
std::set<std::string> parse_warned(std::string_view text);

}  // namespace rgpu::slurm
