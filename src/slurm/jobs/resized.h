// SPDX-License-Identifier: Apache-2.0
// Jobs whose leases have another size than they have paid for, because somebody has resized them
// (rgpu resize), and what they are to pay. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pool/client/client.h"
#include "slurm/jobs/runs.h"
#include "slurm/terms/licences.h"

namespace rgpu::slurm {

struct Resized {
    std::string id;     // the job's number
    std::string name;   // what scontrol calls it
    unsigned gpus = 0;  // in the leases that were seen
    OwnLicences owes;
};
// Of running jobs. Of one that has leases on a server that does not answer, or has lost one, the
// number of GPUs tells it apart.
std::vector<Resized> resized(const std::vector<JobRun> &runs, const pool::Inventories &pool);

// What Slurm says of such a job.
struct Paid {
    std::string id;
    unsigned gpus = 0;     // of the pool, on all its nodes
    std::string licences;  // all of them, as Slurm writes them
};
// What squeue -O is to print for parse_paid().
inline constexpr const char *kPaidFormat = "JobID:|,NumNodes:|,tres-per-node:|,Licenses:|,";
std::vector<Paid> parse_paid(std::string_view printed);

}  // namespace rgpu::slurm
