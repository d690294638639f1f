// SPDX-License-Identifier: Apache-2.0
// The GPUs that a step has on its node: all of the job's, or some that no other such step has
// (--rgpus-per-step).
#pragma once

#include <string>
#include <vector>

#include "util/result.h"

namespace rgpu::plugin {

// How many GPUs the lease file has.
Result<unsigned> gpus_in_lease(const std::string &lease_path);

// Takes `count` of the job's GPUs for this slurmstepd, waiting until other steps leave as many.
// They are locked files beside the lease file, and free when slurmstepd ends, however it ends.
// Called as root, once. Returns their places in the lease.
Result<std::vector<unsigned>> reserve_gpus(const std::string &lease_path, unsigned count);

}  // namespace rgpu::plugin
