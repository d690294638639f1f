// SPDX-License-Identifier: Apache-2.0
// Brings jobs and leases that have lost each other together again, for rgpu slurm sync: ends leases
// of runs that are over, renews those that have a term, and gives up servers that have been
// unreachable for [slurm] lost_after, with the jobs that run with their GPUs.
#pragma once

#include "pool/client/client.h"
#include "slurm/jobs/runs.h"
#include "util/config.h"

namespace rgpu::cli {

// The jobs that have not ended, as squeue tells them.
Result<std::vector<slurm::JobRun>> look_at_runs();

// Ends leases of runs that are over, on servers that were away when they ended; how many there
// were. `pool`, `runs` and `quiet` as below.
size_t end_stale_leases(pool::Client &client, const pool::Inventories &pool,
                        const std::vector<slurm::JobRun> &runs, bool quiet);

// `pool` is what the servers have just said, `runs` what Slurm said after them. Tells what it does
// on stdout, unless `quiet`, and in syslog.
Result<void> reconcile(const SlurmConfig &slurm, pool::Client &client,
                       const pool::Inventories &pool, const std::vector<slurm::JobRun> &runs,
                       bool quiet);

}  // namespace rgpu::cli
