// SPDX-License-Identifier: Apache-2.0
// Slurm's queue as far as it is about the pool: who holds GPUs by it, who waits and why.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "pool/client/client.h"
#include "slurm/jobs/pool_jobs.h"
#include "util/result.h"
#include "web/data/viewer.h"

namespace rgpu::web {

// Runs one of Slurm's commands to its end and returns its stdout.
using Tool = std::function<Result<std::string>(const std::vector<std::string> &)>;

struct Queue {
    std::string failure;                // why it is not known
    unsigned long sold = 0, taken = 0;  // licences: hundredths of GPUs
    struct Entry {
        slurm::PoolJob job;
        std::string why;  // of one that waits
        bool fits_now = false;
        std::vector<std::pair<std::string, std::string>> alternatives;  // options, what they mean
    };
    std::vector<Entry> jobs;
};

// Asks squeue and scontrol.
Queue look_at_queue(const Tool &tool, const pool::Inventories &pool);

// As JSON; of jobs of others that the viewer may not see, the state and the GPUs alone.
//   {"failure", "sold", "taken", "jobs": [{"state", "licences", "nodes", "submitted", "start",
//    "end", "job", "user", "mine", "gpus", "type", "share", "why", "fits_now", "alternatives"}]}
std::string queue_json(const Queue &queue, const Viewer &viewer);

}  // namespace rgpu::web
