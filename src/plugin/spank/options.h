// SPDX-License-Identifier: Apache-2.0
// The options that rgpu adds to srun, sbatch and salloc.
#pragma once

#include <map>
#include <string>

#include "plugin/slurm.h"
#include "plugin/spank/bind.h"

namespace rgpu::plugin {

// What the options say of this step's tasks; known in slurmstepd, after options were parsed.
struct StepOptions {
    Bind bind;
    unsigned per_step = 0;  // 0: all of the job's GPUs
    bool no_devices = false;
};
const StepOptions &step_options();

// The options of the whole job as they were typed, in srun, sbatch or salloc: names without dashes,
// and their values (empty for --rgpu-span).
using JobOptions = std::map<std::string, std::string>;
const JobOptions &typed_job_options();

// Registers --rgpu-share, --rgpu-mem, those of filters.h and those of a step; for
// slurm_spank_init, in every context where options are parsed. A wrong value is told where it is
// typed. ESPANK_SUCCESS or Slurm's code.
int register_options(spank_t spank);

}  // namespace rgpu::plugin
