// SPDX-License-Identifier: Apache-2.0
// Warns jobs that do not use their GPUs, and ends them: [pool] of rgpu.conf, for rgpu slurm sync.
#pragma once

#include <string>
#include <vector>

#include "pool/client/client.h"
#include "slurm/jobs/runs.h"
#include "util/config.h"

namespace rgpu::cli {

// The jobs to which it was done, as Slurm names them.
struct IdleSteps {
    std::vector<std::string> warned, ended;
};

// Asks the servers, where [pool] says anything at all. `runs` is what Slurm said just now. Who was
// warned stands in `file` until the next time. Tells what it does on stdout, unless `quiet`, and in
// syslog.
Result<IdleSteps> act_on_idle(const PoolConfig &config, const std::string &file,
                              pool::Client &client, const std::vector<slurm::JobRun> &runs,
                              bool quiet);

}  // namespace rgpu::cli
