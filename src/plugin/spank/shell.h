// What of the submitting shell's environment must not reach the job: told by the process that has
// it, srun, sbatch or salloc, and taken out on the node.
#pragma once

#include "plugin/slurm.h"

namespace rgpu::plugin {

// Where the value of the shell's CUDA_VISIBLE_DEVICES stands in the job's environment.
constexpr const char *kShellDevices = "RGPU_SHELL_DEVICES";

// For slurm_spank_init_post_opt in srun (`local`), sbatch and salloc.
int shell_post_opt(spank_t spank, bool local);

}  // namespace rgpu::plugin
