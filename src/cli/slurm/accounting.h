// SPDX-License-Identifier: Apache-2.0
// Keeps what a job used in the job's record of Slurm's accounting.
#pragma once

#include <string>

#include "slurm/jobs/job.h"
#include "slurm/jobs/usage.h"
#include "util/result.h"

namespace rgpu::cli {

// Whether Slurm keeps a record of jobs (AccountingStorageType in slurm.conf, which is read for it);
// true where that cannot be told. Without, record_usage() would start two processes for nothing.
bool keeps_records();

// For the controller's epilog, as SlurmUser. Puts it behind the job's AdminComment, with `note` of
// ours in that (record.h) if there is one. scontrol refuses that for a job that has ended, so
// that sacctmgr must; where there is no slurmdbd nothing is kept, and that is no error. Slurm goes
// on with the job when the epilog ends, and that takes slurmdbd a third of a second: for a job that
// has ended it is done behind the epilog, and what fails goes to syslog; one that comes back is
// kept waiting, as its next run has the same number. What fails tells in its text what was to be
// kept.
Result<void> record_usage(const slurm::Job &job, const slurm::JobUsage &used,
                          const std::string &note);

}  // namespace rgpu::cli
