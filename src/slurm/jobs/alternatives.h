// SPDX-License-Identifier: Apache-2.0
// What a job that waits for GPUs of the pool could have at once if it asked for something else.
#pragma once

#include <string>
#include <vector>

#include "pool/client/client.h"
#include "slurm/jobs/pool_jobs.h"

namespace rgpu::slurm {

struct Alternative {
    std::string options;  // of sbatch and srun: "--gres=rgpu:1"
    std::string meaning;  // "1 GPU on each node in the place of 2"
};

// Whether the pool could give the job now what it asks for, as far as Slurm knows it: a job's
// --rgpu-server and the like are not in its record.
bool fits_now(const PoolJob &job, const pool::Inventories &pool);

// The best of each kind: another type, a share, GPUs of several servers, fewer GPUs.
std::vector<Alternative> alternatives(const PoolJob &job, const pool::Inventories &pool);

}  // namespace rgpu::slurm
