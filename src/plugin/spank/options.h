// The options that rgpu adds to srun, sbatch and salloc.
#pragma once

#include "plugin/slurm.h"

namespace rgpu::plugin {

// Registers --rgpu-share, --rgpu-mem and those of filters.h; for slurm_spank_init, in every context where options are
// parsed. A wrong value is told where it is typed. ESPANK_SUCCESS or Slurm's code.
int register_options(spank_t spank);

}  // namespace rgpu::plugin
