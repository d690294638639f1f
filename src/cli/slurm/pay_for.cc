#include "cli/slurm/pay_for.h"

#include "cli/slurm/tool.h"
#include "slurm/terms/licences.h"

namespace rgpu::cli {

Result<void> pay_for(slurm::Job &job, unsigned nodes)
{
    unsigned long count = job.each * nodes;
    if (job.most_nodes == 0 || job.licences == count) return {};
    auto licences = slurm::with_rgpu(job.all_licences, count);
    if (!licences) return licences.error();
    if (auto done = run_tool({"scontrol", "update", "JobId=" + job.name, "Licenses=" + *licences});
        !done)
        return std::move(done).error().in("its licences cannot be counted for " +
                                          std::to_string(nodes) + " nodes");
    job.licences = count;
    return {};
}

}  // namespace rgpu::cli
