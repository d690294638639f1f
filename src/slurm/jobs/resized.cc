// SPDX-License-Identifier: Apache-2.0
#include "slurm/jobs/resized.h"

#include "slurm/jobs/missing.h"
#include "slurm/terms/number.h"
#include "slurm/terms/request.h"
#include "util/next_token.h"

namespace rgpu::slurm {

std::vector<Resized> resized(const std::vector<JobRun> &runs, const pool::Inventories &pool)
{
    std::vector<Resized> out;
    for (const JobRun &run : runs) {
        // Slurm changes the licences of no suspended job.
        if (run.state != "RUNNING" || run.licences == 0) continue;
        Resized job{run.id, run.name.find('+') == run.name.npos ? run.name : run.id, 0, {}};
        std::vector<std::string> types;
        for (const auto &[type, count] : run.types) types.push_back(type);
        for (const auto &told : pool)
            for (size_t i = 0; told.answer && i < told.answer->leases.size(); ++i) {
                const pool::Lease &lease = told.answer->leases[i];
                if (!is_of_run(lease, run)) continue;
                job.gpus += static_cast<unsigned>(lease.gpus.size());
                job.owes.sum += paid(lease);
                add_types(lease, types, job.owes.types);
            }
        if (job.gpus && job.owes.sum != run.licences) out.push_back(std::move(job));
    }
    return out;
}

std::vector<Paid> parse_paid(std::string_view printed)
{
    std::vector<Paid> out;
    while (!printed.empty()) {
        std::string_view line = next_token(printed, "\n");
        Paid job;
        job.id = next_token(line, "|");
        const unsigned long nodes = number_of(next_token(line, "|"));
        const auto gpus = gpus_in_tres(next_token(line, "|"));
        job.licences = next_token(line, "|");
        if (!gpus || job.id.empty()) continue;
        job.gpus = static_cast<unsigned>(nodes) * gpus->count;
        out.push_back(std::move(job));
    }
    return out;
}

}  // namespace rgpu::slurm
