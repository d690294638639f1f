// A subcommand that Slurm's prologs and epilogs run for a job: one that is not ours ends well and
// costs nothing.
#pragma once

#include "cli/parts/command.h"
#include "cli/slurm/job.h"

namespace rgpu::cli {

class JobCommand : public Command {
public:
    void options(CLI::App &) override {}
    int run(Context &context) final
    {
        auto job = slurm_job();
        if (!job) return fail(job.error());
        return job->ours ? run_for(*job, context) : kOk;
    }

protected:
    // The job has asked for GPUs of the pool. Returns the exit status.
    virtual int run_for(SlurmJob &job, Context &context) = 0;
};

}  // namespace rgpu::cli
