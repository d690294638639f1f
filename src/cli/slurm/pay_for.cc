#include "cli/slurm/pay_for.h"

#include <cstdlib>

#include "cli/slurm/tool.h"
#include "slurm/conf/conf.h"
#include "slurm/jobs/missing.h"
#include "slurm/terms/licences.h"

namespace rgpu::cli {
namespace {

Result<void> set_licences(slurm::Job &job, const slurm::OwnLicences &own)
{
    if (own == slurm::own_licences(job.all_licences)) return {};
    auto licences = slurm::with_rgpu(job.all_licences, own);
    if (!licences) return licences.error();
    if (auto done = run_tool({"scontrol", "update", "JobId=" + job.name, "Licenses=" + *licences});
        !done)
        return std::move(done).error().in("its licences cannot be set to " + *licences);
    job.all_licences = *licences;
    job.licences = own.sum;
    return {};
}

// Those that slurm.conf sells: the script's SLURM_CONF names it.
std::vector<std::string> types_in_conf()
{
    const char *path = getenv("SLURM_CONF");
    auto conf = path ? slurm::read_conf(path)
                     : Result<slurm::Conf>(error(ErrorKind::unavailable, "SLURM_CONF is not set"));
    return conf ? slurm::types_sold(conf->value("Licenses").value_or(""))
                : std::vector<std::string>();
}

}  // namespace

Result<void> pay_for(slurm::Job &job, unsigned nodes)
{
    if (job.most_nodes == 0) return {};
    return set_licences(job, slurm::all_of_types(job.each * nodes, job.types_paid));
}

Result<void> pay_for_types(slurm::Job &job, const std::vector<pool::Grant> &grants)
{
    const std::vector<std::string> types = types_in_conf();
    if (types.empty()) return {};
    slurm::OwnLicences own{job.licences, {}};
    for (const pool::Grant &grant : grants) slurm::add_types(grant.lease, types, own.types);
    return set_licences(job, own);
}

Result<void> pay_as_submitted(slurm::Job &job)
{
    const unsigned long sum = job.most_nodes ? job.each * job.most_nodes : job.licences;
    return set_licences(job, slurm::all_of_types(sum, job.types_paid));
}

}  // namespace rgpu::cli
