// How many licences a running job holds: Slurm lets its operators change it.
#pragma once

#include "slurm/jobs/job.h"
#include "util/result.h"

namespace rgpu::cli {

// Makes the job hold the licences of so many nodes. Of a range of nodes a job has paid for the most
// until its prolog knows them; other jobs are left as they are. `job` has the new number then.
Result<void> pay_for(slurm::Job &job, unsigned nodes);

}  // namespace rgpu::cli
