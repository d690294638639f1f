// What the workers of a lease may take of the host, from the lease ([rgpud] worker_memory,
// worker_pids, worker_cpu).
#pragma once

#include "pool/messages/messages.h"
#include "spawner/limits.h"
#include "util/config.h"

namespace rgpu::serverd {

// For a lease that has so many workers: all of them together.
spawner::Limits limits_of(const RgpudConfig &config, const pool::Lease &lease, int workers);
// What two leases of one job may take together.
spawner::Limits both(const spawner::Limits &, const spawner::Limits &);
// For one process, where there are no cgroups: its user may have others on this host.
spawner::Limits process_limits(const RgpudConfig &config, const pool::Lease &lease, int workers);

}  // namespace rgpu::serverd
