// What the plugin does in slurmstepd, on the node.
#pragma once

#include "plugin/slurm.h"

namespace rgpu::plugin {

// Gives the tasks (of srun, and the batch script alike) RGPU_LEASE and our libcuda.so.1, where the
// job has leases on this node. For slurm_spank_user_init.
int remote_user_init(spank_t spank, int count, char **arguments);

}  // namespace rgpu::plugin
