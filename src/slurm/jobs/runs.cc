// SPDX-License-Identifier: Apache-2.0
#include "slurm/jobs/runs.h"

#include <algorithm>
#include <cstdlib>

#include "slurm/jobs/missing.h"
#include "slurm/terms/licences.h"
#include "slurm/terms/number.h"
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
                    return is_of_job(lease, run) && fits(run, lease);
                }))
                out.push_back({told.server, lease.id, lease.owner.job});
        }
    return out;
}

}  // namespace

bool is_of_job(const pool::Lease &lease, const JobRun &run)
{
    return lease.owner.job == run.id && (!run.uid || lease.owner.uid == *run.uid);
}

bool is_of_run(const pool::Lease &lease, const JobRun &run)
{
    return is_of_job(lease, run) && (lease.owner.run < 0 || lease.owner.run == run.restarts);
}

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
        if (const std::string_view user = next_token(line, "|"); !user.empty())
            run.uid = static_cast<uint32_t>(number_of(user));
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
        return lease.expires_in.count() != 0 && is_of_run(lease, run);
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
                if (is_of_run(lease, run)) there += paid(lease);
            }
        if (there < run.licences) out.push_back(run);
    }
    return out;
}

}  // namespace rgpu::slurm
