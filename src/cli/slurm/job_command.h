// SPDX-License-Identifier: Apache-2.0
// A subcommand that Slurm's prologs and epilogs run for a job: one that is not ours ends well and
// costs nothing.
#pragma once

#include "cli/parts/command.h"
#include "slurm/jobs/job.h"

namespace rgpu::cli {

// Tells the job's error (slurm::tell_of_job); returns kFailed.
inline int fail_job(const slurm::Job &job, const Error &error)
{
    slurm::tell_of_job(job, error);
    return kFailed;
}

class JobCommand : public Command {
public:
    void options(CLI::App &) override {}
    int run(Context &context) final
    {
        auto job = slurm::read_job();
        if (!job) return fail(job.error());
        return job->ours ? run_for(*job, context) : kOk;
    }

protected:
    // The job has asked for GPUs of the pool. Returns the exit status.
    virtual int run_for(slurm::Job &job, Context &context) = 0;
};

}  // namespace rgpu::cli
