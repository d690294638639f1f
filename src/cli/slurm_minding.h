// What rgpu slurm sync does for jobs and leases that have lost each other: it ends leases of runs that are over, and gives up
// servers that have been silent for [slurm] lost_after, with the jobs that run with their GPUs.
#pragma once

#include "cli/pool_view.h"
#include "util/config.h"

namespace rgpu::cli {

// `pool` is what the servers have just said. Tells what it does on stdout, unless `quiet`, and in syslog. Fails where Slurm
// cannot be asked; then nothing is done.
Result<void> mind_jobs(const SlurmConfig &slurm, pool::Client &client, const Inventories &pool, bool quiet);

}  // namespace rgpu::cli
