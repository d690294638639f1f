// SPDX-License-Identifier: Apache-2.0
// What is told of a job that waits in its prolog: for what, since when, and who has it.
#pragma once

#include <string>

#include "pool/client/client.h"
#include "slurm/jobs/job.h"
#include "util/clock.h"

namespace rgpu::cli {

// Of one prolog, from its first try on.
class Waiting {
public:
    // The client must outlive it.
    Waiting(const slurm::Job &job, pool::Client &client) : job_(job), client_(client) {}

    // Call it after each try in vain, with the servers' reason. When the job has waited for two
    // seconds, its AdminComment, its terminal and syslog say so, once.
    void still(const std::string &reason);
    // The job has its GPUs: where something was told, its AdminComment says how long it waited.
    void over();

private:
    const slurm::Job &job_;
    pool::Client &client_;
    const Time start_ = now();
    bool told_ = false;
};

// Puts the text into the job's AdminComment, in place of what rgpu wrote there before; the servers
// that the job avoids stay.
void note_in_job(const slurm::Job &job, const std::string &text);

// Puts the line on the terminal of the job's srun or salloc; a batch job has none.
void notify_job(const slurm::Job &job, const std::string &text);

}  // namespace rgpu::cli
