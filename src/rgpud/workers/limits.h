// SPDX-License-Identifier: Apache-2.0
// What the workers of a lease may take of the host, from the lease ([rgpud] worker_memory,
// worker_pids, worker_cpu). What is too much to be said is the most that the kernel takes.
#pragma once

#include "pool/messages/messages.h"
#include "rgpud/workers/cgroup.h"
#include "util/child.h"
#include "util/config.h"

namespace rgpu::serverd {

// For a lease that has so many workers: all of them together.
Limits limits_of(const RgpudConfig &config, const pool::Lease &lease, int workers);
// What two leases of one job may take together.
Limits both(const Limits &, const Limits &);
// For one process, where there are no cgroups: its user may have others on this host.
ProcessLimits process_limits(const Limits &);

}  // namespace rgpu::serverd
