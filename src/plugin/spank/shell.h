// SPDX-License-Identifier: Apache-2.0
// What the plugin does in srun, sbatch and salloc: it tells what of the shell's environment must
// not reach the job (taken out on the node), and remarks on options that have no effect.
#pragma once

#include "plugin/slurm.h"

namespace rgpu::plugin {

// Where the value of the shell's CUDA_VISIBLE_DEVICES stands in the job's environment.
constexpr const char *kShellDevices = "RGPU_SHELL_DEVICES";

// For slurm_spank_init_post_opt in srun (`local`), sbatch and salloc.
int shell_post_opt(spank_t spank, bool local);

// For slurm_spank_local_user_init, in an srun whose step is made.
int shell_user_init(spank_t spank);

}  // namespace rgpu::plugin
