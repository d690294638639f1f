// SPDX-License-Identifier: Apache-2.0
// Where a job's leases lie on its node: written by the node's prolog, read by the SPANK plugin.
#pragma once

#include <string>
#include <string_view>

namespace rgpu::slurm {

// RUNDIR/JOB/lease.json. %n in rundir stands for the node's name in Slurm: slurmds that share a
// host need directories of their own.
std::string lease_path(std::string_view rundir, std::string_view node, std::string_view job);

// Beside it: the file that a step locks which has this GPU of the job's for itself (place in the
// lease).
std::string gpu_path(std::string_view lease_path, unsigned place);

// Beside it: one line that says why there is no lease file.
std::string error_path(std::string_view lease_path);

// Beside it: there when the job ran on this node before, and its epilog took the lease file away.
std::string ended_path(std::string_view lease_path);

}  // namespace rgpu::slurm
