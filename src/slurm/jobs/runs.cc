// SPDX-License-Identifier: Apache-2.0
#include "slurm/jobs/runs.h"

#include <algorithm>
#include <cstdlib>

#include "slurm/jobs/missing.h"
#include "slurm/terms/licences.h"
#include "util/next_token.h"

namespace rgpu::slurm {
namespace {

// The leases of these jobs for which fits(run, lease) is true.
template <class Fits> std::vector<LeaseOf> chosen(const std::vector<JobRun> &runs,
                                                  const pool::Inventories &pool, Fits &&fits)
{
    std::vector<LeaseOf> out;
    for (const auto &told : pool)
        for (size_t i = 0; told.answer && i < told.answer->leases.size(); ++i) {
            const pool::Lease &lease = told.answer->leases[i];
            if (std::any_of(runs.begin(), runs.end(), [&](const JobRun &run) {
                    return run.id == lease.owner.job && fits(run, lease);
                }))
                out.push_back({told.server, lease.id, lease.owner.job});
        }
    return out;
}

}  // namespace

std::vector<JobRun> parse_runs(std::string_view printed)
{
    std::vector<JobRun> out;
    while (!printed.empty()) {
        std::string_view line = next_token(printed, "\n");
        JobRun run;
        run.id = next_token(line, "|");
        run.name = next_token(line, "|");
        run.state = next_token(line, "|");
        run.restarts = atoi(std::string(next_token(line, "|")).c_str());
        OwnLicences own = own_licences(next_token(line, "|"));
        run.licences = own.sum;
        run.types = std::move(own.types);
        if (!run.id.empty()) out.push_back(std::move(run));
    }
    return out;
}

std::vector<LeaseOf> stale_leases(const std::vector<JobRun> &runs, const pool::Inventories &pool)
{
    return chosen(runs, pool, [](const JobRun &run, const pool::Lease &lease) {
        return lease.owner.run >= 0 && run.restarts > lease.owner.run;
    });
}

std::vector<LeaseOf> leases_to_renew(const std::vector<JobRun> &runs, const pool::Inventories &pool)
{
    return chosen(runs, pool, [](const JobRun &run, const pool::Lease &lease) {
        return lease.expires_in.count() != 0 &&
               (lease.owner.run < 0 || run.restarts == lease.owner.run);
    });
}

std::vector<JobRun> runs_that_miss(const std::vector<JobRun> &runs, const pool::Inventories &pool)
{
    std::vector<JobRun> out;
    for (const JobRun &run : runs) {
        if (!run.runs() || run.licences == 0) continue;
        unsigned long there = 0;
        for (const auto &told : pool)
            for (size_t i = 0; told.answer && i < told.answer->leases.size(); ++i) {
                const pool::Lease &lease = told.answer->leases[i];
                if (lease.owner.job == run.id &&
                    (lease.owner.run < 0 || lease.owner.run == run.restarts))
                    there += paid(lease);
            }
        if (there < run.licences) out.push_back(run);
    }
    return out;
}

}  // namespace rgpu::slurm
