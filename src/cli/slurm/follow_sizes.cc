// SPDX-License-Identifier: Apache-2.0
#include "cli/slurm/follow_sizes.h"

#include <algorithm>
#include <cstdio>
#include <syslog.h>

#include "cli/slurm/tool.h"
#include "slurm/jobs/resized.h"

namespace rgpu::cli {

Result<size_t> follow_sizes(const pool::Inventories &pool, const std::vector<slurm::JobRun> &runs,
                            bool quiet)
{
    const std::vector<slurm::Resized> jobs = slurm::resized(runs, pool);
    if (jobs.empty()) return size_t{0};
    std::string ids;
    for (const slurm::Resized &job : jobs) ids += (ids.empty() ? "" : ",") + job.id;
    auto printed = run_tool({"squeue", "-h", "-j", ids, "-O", slurm::kPaidFormat});
    if (!printed) return std::move(printed).error();
    const std::vector<slurm::Paid> all = slurm::parse_paid(*printed);
    size_t count = 0;
    for (const slurm::Resized &job : jobs) {
        const auto paid = std::find_if(all.begin(), all.end(), [&](const slurm::Paid &one) {
            return one.id == job.id && one.gpus == job.gpus;
        });
        if (paid == all.end()) continue;
        auto licences = slurm::with_rgpu(paid->licences, job.owes);
        if (!licences) return std::move(licences).error();
        const std::vector<std::string> command = {"scontrol", "update", "JobId=" + job.name,
                                                  "Licenses=" + *licences};
        if (auto done = run_tool(command); !done)
            return std::move(done).error().in("the licences of job " + job.name);
        openlog("rgpu", LOG_PID, LOG_DAEMON);
        syslog(LOG_INFO, "job %s was resized: its licences are %s", job.name.c_str(),
               licences->c_str());
        if (!quiet)
            printf("job %s was resized: its licences are %s\n", job.name.c_str(),
                   licences->c_str());
        ++count;
    }
    return count;
}

}  // namespace rgpu::cli
