// SPDX-License-Identifier: Apache-2.0
// Slurm's licences follow the sizes of leases (rgpu resize).
#pragma once

#include <vector>

#include "pool/client/client.h"
#include "slurm/jobs/runs.h"
#include "util/result.h"

namespace rgpu::cli {

// Sets the licences of those of these running jobs whose leases have another size than they have
// paid for; returns how many those are. Slurm lets only operators do that for a running job, and
// job_submit only root and SlurmUser. Slurm may have given what they grow by to others meanwhile:
// it counts more then than it has, and starts no other job until that is over.
Result<size_t> follow_sizes(const pool::Inventories &pool, const std::vector<slurm::JobRun> &runs,
                            bool quiet);

}  // namespace rgpu::cli
