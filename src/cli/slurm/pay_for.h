// SPDX-License-Identifier: Apache-2.0
// The licences of a job whose number of nodes, or whose type of GPU, is known only when it starts.
#pragma once

#include <string>
#include <vector>

#include "pool/client/client.h"
#include "slurm/jobs/job.h"

namespace rgpu::cli {

// Sets the job's licences to those of so many nodes, in Slurm and in `job`; another job's than one
// with a range of nodes stay. Its types are those that it took at submit.
Result<void> pay_for(slurm::Job &job, unsigned nodes);

// For a job that Slurm starts again: sets its licences to those that it asked for, which are others
// where it was resized before (rgpu resize).
Result<void> pay_as_asked(slurm::Job &job);

// Sets the licences of types to those of the GPUs that the job has been granted, where Slurm sells
// such; the sum stays.
Result<void> pay_for_types(slurm::Job &job, const std::vector<pool::Grant> &grants);

// The opposite, for a job that may start again and get others: back to what it took at submit. For
// its epilog. Slurm takes back what the job's record names when the epilog has ended, so this is
// done behind it, and only where the job is pending then.
void pay_as_submitted(slurm::Job &job);

}  // namespace rgpu::cli
