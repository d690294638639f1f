// SPDX-License-Identifier: Apache-2.0
// Ends a job on its behalf when its slurmstepd was killed.
//
// Slurm does not notice that (22.05: srun waits and the job runs on for ever), and the job's
// programs go on without it. So a small process outside the step waits for slurmstepd's end, and
// where that was no orderly one, runs `rgpu slurm lost`. To that `job` is what Slurm's commands
// call the job.
#pragma once

#include <string>

#include "plugin/spank/settings.h"

namespace rgpu::plugin {

// Starts the watcher of this slurmstepd; called as root, once, before tasks exist. A failure is
// logged and costs only the watching.
void start_watch(const Settings &settings, const std::string &job, const std::string &lease);

// The orderly end: the watcher goes too. Does nothing where none was started.
void end_watch();

}  // namespace rgpu::plugin
