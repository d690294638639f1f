// SPDX-License-Identifier: Apache-2.0
// The job's leases where slurmd left out the Prolog that fetches them.
#pragma once

#include <cstdint>
#include <string>

#include "plugin/spank/settings.h"

namespace rgpu::plugin {

// Does what the node's Prolog does (rgpu slurm node-prolog), as root, and waits for it: the lease
// file is there then, or the file that says why not (slurm/terms/paths.h).
void fetch_leases(const Settings &settings, uint32_t job, uint32_t user, const std::string &node);

}  // namespace rgpu::plugin
