// SPDX-License-Identifier: Apache-2.0
// What becomes of a job at submit and at update: refused with a sentence, or given its licences.
//
// The whole judgement of job_submit_rgpu, free of Slurm's types. No I/O, no waiting: it runs under
// slurmctld's locks. Texts of errors are for the user, who sees them behind "srun: error: rgpu: ".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "slurm/terms/nodes.h"
#include "slurm/terms/request.h"
#include "slurm/terms/snapshot.h"
#include "util/result.h"

namespace rgpu::plugin {

// The values of our SPANK options, as typed.
struct Options {
    std::optional<std::string_view> share, memory;  // --rgpu-share and --rgpu-mem
    std::vector<std::pair<const slurm::FilterOption *, std::string_view>> filters;
    bool span = false;  // --rgpu-span
    bool any() const { return share || memory || span || !filters.empty(); }
};

// Strings are empty where Slurm has NULL, numbers where it has NO_VAL.
struct Submission {
    std::string_view tres_per_node, tres_per_job, tres_per_socket, tres_per_task;
    std::string_view licences;
    Options options;
    std::optional<unsigned> min_nodes, max_nodes, tasks, tasks_per_node;
    unsigned named_nodes = 0;                  // in --nodelist
    std::vector<std::string> types_sold = {};  // of which Slurm sells licences (terms/licences.h)
};

// What to write into the job.
struct Terms {
    std::string licences;
    slurm::Nodes nodes;
    unsigned long each = 0;               // licences of one node
    std::string type;                     // of rgpu:TYPE:N; empty without
    std::vector<std::string> types = {};  // whose licences it takes
};

// Nothing for a job that does not ask for the pool's GPUs. pool is null where there is no snapshot:
// then nothing is refused for its size.
Result<std::optional<Terms>> judge_submission(const Submission &job, const slurm::Snapshot *pool);

// A job that slurmctld knows already.
struct KnownJob {
    bool known = true;  // false: this slurmctld does not tell; then only harmless updates pass
    bool running = false;
    std::string_view id;
    std::string_view licences;
    Options options;
    std::string_view type;  // of its Terms, as the next two
    slurm::Nodes nodes;
    unsigned long each = 0;  // where nodes is a range
};

// What an update would change.
struct Update {
    std::optional<std::string_view> tres_per_node, licences;
    std::optional<unsigned> min_nodes, max_nodes;
    bool by_slurm = false;  // root or SlurmUser asks: rgpu's own prolog does so
};

// The licences to put into the update, or nothing to leave it as it is.
Result<std::optional<std::string>> judge_update(const KnownJob &job, const Update &update,
                                                const slurm::Snapshot *pool);

}  // namespace rgpu::plugin
