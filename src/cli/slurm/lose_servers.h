// SPDX-License-Identifier: Apache-2.0
// Does to a job that has lost a server what [slurm] lost_server of rgpu.conf says.
#pragma once

#include <string>
#include <vector>

#include "slurm/jobs/lost_server.h"
#include "util/config.h"
#include "util/result.h"

namespace rgpu::cli {

// Requeues, holds, ends or leaves the job (what scontrol calls it: "17", "14_3"; of a heterogeneous
// job the leader), and says so in its AdminComment, with the servers that its next run avoids.
// Returns what was done, in words. `running`: the job runs, otherwise it has just failed.
Result<std::string> lose_servers(const SlurmConfig &slurm, const std::string &job,
                                 const slurm::JobRecord &record,
                                 const std::vector<slurm::LostServer> &lost, bool running);

}  // namespace rgpu::cli
