// SPDX-License-Identifier: Apache-2.0
// A pool of three servers, one of which does not answer, and runs of jobs, for tests.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "slurm/jobs/runs.h"

namespace rgpu::slurm::test {

inline pool::Inventories servers(std::vector<pool::Lease> gpu1, std::vector<pool::Lease> gpu2)
{
    pool::Inventory one, two;
    one.leases = std::move(gpu1);
    two.leases = std::move(gpu2);
    pool::Inventories out;
    out.push_back({"gpu1", std::move(one)});
    out.push_back({"gpu2", std::move(two)});
    out.push_back({"gpu3", Error{ErrorKind::disconnected, "Connection refused"}});
    return out;
}

inline JobRun run(const char *id, const char *state, int restarts, unsigned long licences)
{
    return {id, id, state, restarts, licences};
}

}  // namespace rgpu::slurm::test
