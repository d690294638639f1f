// SPDX-License-Identifier: Apache-2.0
#include "cli/slurm/pay_for.h"

#include <cstdlib>
#include <thread>

#include "cli/slurm/behind.h"
#include "cli/slurm/job_record.h"
#include "cli/slurm/tool.h"
#include "pool/client/backoff.h"
#include "slurm/conf/conf.h"
#include "slurm/jobs/missing.h"
#include "slurm/jobs/resized.h"
#include "slurm/terms/licences.h"
#include "slurm/terms/request.h"
#include "util/clock.h"

namespace rgpu::cli {
namespace {

// A node that does not answer keeps a job completing for longer; that job pays as it did.
constexpr Milliseconds kEpilogLimit{120'000};
constexpr int kLongPause = 3;

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

// What the job's state is when slurmctld has done with this run of it. Until then its record names
// what it gives back.
Result<std::string> state_after_epilog(const slurm::Job &job)
{
    pool::Backoff backoff;
    for (const Time end = now() + kEpilogLimit;;) {
        auto record = look_at(job.name);
        if (!record) return std::move(record).error();
        if (record->state != "COMPLETING" || now() >= end) return record->state;
        std::this_thread::sleep_for(backoff.pause(kLongPause));
    }
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

Result<void> pay_as_asked(slurm::Job &job)
{
    if (job.run == 0 || job.most_nodes) return {};
    auto printed = run_tool({"squeue", "-h", "-j", job.name, "-O", slurm::kPaidFormat});
    if (!printed) return std::move(printed).error();
    slurm::Share share;
    if (!job.share.empty()) {
        auto said = slurm::parse_share(job.share);
        if (!said) return std::move(said).error();
        share = *said;
    }
    for (const slurm::Paid &paid : slurm::parse_paid(*printed)) {
        const unsigned long sum = slurm::licences_for(paid.gpus, share.least, 1);
        if (paid.id == job.id && sum != 0 && sum != job.licences)
            return set_licences(job, slurm::all_of_types(sum, job.types_paid));
    }
    return {};
}

Result<void> pay_for_types(slurm::Job &job, const std::vector<pool::Grant> &grants)
{
    const std::vector<std::string> types = types_in_conf();
    if (types.empty()) return {};
    slurm::OwnLicences own{job.licences, {}};
    for (const pool::Grant &grant : grants) slurm::add_types(grant.lease, types, own.types);
    return set_licences(job, own);
}

void pay_as_submitted(slurm::Job &job)
{
    const unsigned long sum = job.most_nodes ? job.each * job.most_nodes : job.licences;
    const slurm::OwnLicences own = slurm::all_of_types(sum, job.types_paid);
    if (own == slurm::own_licences(job.all_licences)) return;
    behind([&] {
        if (auto state = state_after_epilog(job); state && *state == "PENDING")
            if (auto paid = set_licences(job, own); !paid)
                slurm::tell_of_job(job, std::move(paid).error());
    });
}

}  // namespace rgpu::cli
