// SPDX-License-Identifier: Apache-2.0
// What the plugin does in slurmstepd, on the node.
#pragma once

#include "plugin/slurm.h"

namespace rgpu::plugin {

// Starts to watch over a job that has leases on this node. For slurm_spank_init_post_opt.
int remote_post_opt(spank_t spank, int count, char **arguments);

// Gives the tasks (of srun, and the batch script alike) RGPU_LEASE and our libcuda.so.1, where the
// job has leases on this node; ends the step with the prolog's sentence where they could not be
// fetched. For slurm_spank_user_init.
int remote_user_init(spank_t spank, int count, char **arguments);

// Shows a task the leased GPUs as devices of its node (view/show.h), in a mount namespace of its
// own; says in one line where that cannot be, and lets it run. For
// slurm_spank_task_init_privileged, which is called as root in the task's own process.
int remote_task_privileged(spank_t spank, int count, char **arguments);

// Sets CUDA_VISIBLE_DEVICES of one task where --rgpu-bind or --rgpus-per-step say so, and takes
// away one that Slurm made for the node's own GPUs. For slurm_spank_task_init.
int remote_task_init(spank_t spank, int count, char **arguments);

// For slurm_spank_exit.
int remote_exit();

}  // namespace rgpu::plugin
