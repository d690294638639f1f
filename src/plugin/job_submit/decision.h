// What becomes of a job at submit and at update: refused with a sentence, or given its licences.
//
// The whole judgement of job_submit_rgpu, free of Slurm's types. No I/O, no waiting: it runs under
// slurmctld's locks. Texts of errors are for the user, who sees them behind "srun: error: rgpu: ".
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "plugin/request.h"
#include "plugin/snapshot.h"
#include "util/result.h"

namespace rgpu::plugin {

// Strings are empty where Slurm has NULL, numbers where it has NO_VAL.
struct Submission {
    std::string_view tres_per_node, tres_per_job, tres_per_socket, tres_per_task;
    std::string_view licences;
    std::optional<std::string_view> share, memory;  // the values of --rgpu-share and --rgpu-mem
    std::optional<unsigned> min_nodes, max_nodes, tasks, tasks_per_node;
    unsigned named_nodes = 0;  // in --nodelist
};

// What to write into the job.
struct Terms {
    std::string licences;
    unsigned nodes = 1;  // exactly so many: licences are counted before nodes are chosen
};

// Nothing for a job that does not ask for the pool's GPUs. pool is null where there is no snapshot:
// then nothing is refused for its size.
Result<std::optional<Terms>> judge_submission(const Submission &job, const Snapshot *pool);

// A job that slurmctld knows already.
struct KnownJob {
    bool known = true;  // false: this slurmctld does not tell; then only harmless updates pass
    bool running = false;
    std::string_view licences;
    std::optional<std::string_view> share, memory;
    unsigned nodes = 0;  // those of its Terms; 0 where it was submitted without rgpu
};

// What an update would change.
struct Update {
    std::optional<std::string_view> tres_per_node, licences;
    std::optional<unsigned> min_nodes, max_nodes;
};

// The licences to put into the update, or nothing to leave it as it is.
Result<std::optional<std::string>> judge_update(const KnownJob &job, const Update &update, const Snapshot *pool);

}  // namespace rgpu::plugin
