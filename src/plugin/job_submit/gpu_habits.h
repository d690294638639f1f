// SPDX-License-Identifier: Apache-2.0
// What people ask for by habit: Slurm's own options for GPUs (--gpus, --gres=gpu:N, ...), where no
// node has any. They are told what to write, or have it written for them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "plugin/job_submit/decision.h"
#include "util/result.h"

namespace rgpu::plugin {

// The strings in which Slurm carries them; empty where it has NULL.
struct GpuHabits {
    std::string_view cpus_per_tres, mem_per_tres, tres_bind, tres_freq;
    bool batch = false;      // a script: srun and salloc would ask for the same again in each step
    bool translate = false;  // [slurm] gpus_mean_rgpu
};

// What the job is to ask for instead. Numbers without a value stay as they are.
struct Translation {
    std::string tres_per_node;  // for all of tres_per_job, _node and _task
    std::optional<unsigned> cpus_per_task;
    std::optional<unsigned long> memory;  // MB on each node
    std::string told;                     // for the user
};

// Nothing where the job names no GPU of Slurm's; refused, with what to write, where it does and
// that is not translated.
Result<std::optional<Translation>> translate_habits(const Submission &job, const GpuHabits &asked);

}  // namespace rgpu::plugin
