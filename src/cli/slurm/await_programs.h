// SPDX-License-Identifier: Apache-2.0
// The controller's epilog begins when a job is told to end, not when it has ended.
#pragma once

#include "pool/client/client.h"
#include "slurm/jobs/job.h"

namespace rgpu::cli {

// Waits until no program of the job is connected to its GPUs any more. Slurm runs EpilogSlurmctld
// at once when it cancels, preempts or requeues a job: its programs get SIGTERM at the same time,
// and may use KillWait to keep their work. Not longer than that and a little, and not for servers
// that do not answer. A job whose programs have ended costs a look.
void await_programs(pool::Client &client, const slurm::Job &job);

}  // namespace rgpu::cli
