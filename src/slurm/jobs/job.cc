// SPDX-License-Identifier: Apache-2.0
// Reads the environment of Slurm's prologs and epilogs.
#include "slurm/jobs/job.h"

#include <cstdio>
#include <cstdlib>
#include <syslog.h>

#include "slurm/terms/licences.h"
#include "slurm/terms/nodes.h"
#include "slurm/terms/request.h"
#include "util/next_token.h"

namespace rgpu::slurm {
namespace {

std::string variable(const char *name)
{
    const char *value = getenv(name);
    return value ? value : "";
}

std::string option(const char *name)
{
    return variable(("SPANK_" + option_variable(name)).c_str());
}

// Which GPUs will do. The servers among the filters are for the client (pool::Client::only).
pool::GpuFilter gpu_filter(const Job &job)
{
    pool::GpuFilter out;
    out.names = job.filters.names;
    if (!job.type.empty()) out.names = {name_of_type(job.type)};
    out.uuids = job.filters.uuids;
    out.memory = job.filters.memory;
    out.compute_capability = job.filters.compute_capability;
    out.cuda = job.filters.cuda;
    out.driver = job.filters.driver;
    return out;
}

}  // namespace

Result<Job> read_job()
{
    Job job;
    job.id = variable("SLURM_JOB_ID");
    if (job.id.empty() || job.id.find_first_not_of("0123456789") != job.id.npos)
        return Error{ErrorKind::invalid,
                     "SLURM_JOB_ID is not set; this command is for Slurm's prologs and epilogs"};
    job.uid = static_cast<uint32_t>(strtoul(variable("SLURM_JOB_UID").c_str(), nullptr, 10));
    job.user = variable("SLURM_JOB_USER");
    job.node = variable("SLURMD_NODENAME");
    job.node_list = variable("SLURM_JOB_NODELIST");
    job.nodes =
        static_cast<unsigned>(strtoul(variable("SLURM_JOB_NUM_NODES").c_str(), nullptr, 10));
    job.all_licences = variable("SLURM_JOB_LICENSES");
    job.licences = rgpu_licences(job.all_licences);
    // job_submit's mark, which no user can set.
    const std::string nodes_mark = std::string("SPANK_") + kNodesMark;
    job.ours = job.licences != 0 || getenv(nodes_mark.c_str());
    if (auto nodes = parse_nodes(variable(nodes_mark.c_str())); nodes.range()) {
        job.most_nodes = nodes.most;
        job.each = strtoul(variable("SPANK_RGPU_EACH").c_str(), nullptr, 10);
    }
    job.type = variable("SPANK_RGPU_TYPE");
    job.types_paid = tokens(variable((std::string("SPANK_") + kTypesMark).c_str()), ",");
    job.share = option("rgpu-share");
    job.memory = option("rgpu-mem");
    job.span = getenv(("SPANK_" + option_variable(kSpanOption)).c_str()) != nullptr;
    for (const FilterOption &filter : filter_options())
        if (std::string value = option(filter.name); !value.empty())
            if (auto added = add_filter(filter, value, job.filters); !added) return added.error();
    job.qos = variable("SLURM_JOB_QOS");
    job.account = variable("SLURM_JOB_ACCOUNT");
    std::string exit = variable("SLURM_JOB_EXIT_CODE2");
    job.failed = !exit.empty() && exit != "0:0";
    job.run = atoi(variable("SLURM_JOB_RESTART_COUNT").c_str());
    std::string array = variable("SLURM_ARRAY_JOB_ID"), leader = variable("SLURM_HET_JOB_ID");
    job.name = !array.empty() ? array + "_" + variable("SLURM_ARRAY_TASK_ID") : job.id;
    job.whole = !leader.empty() ? leader : job.name;
    return job;
}

Result<pool::Request> request_for(const Job &job, const std::string &node)
{
    pool::Request request;
    if (!job.share.empty()) {
        auto share = parse_share(job.share);
        if (!share) return share.error();
        request.share = static_cast<int>(share->least);
        request.most = static_cast<int>(share->most);
    }
    if (!job.memory.empty()) {
        auto memory = parse_memory(job.memory);
        if (!memory) return memory.error();
        request.memory = *memory;
    }
    unsigned long each = licences_for(1, static_cast<unsigned>(request.share), job.nodes);
    if (each == 0 || job.licences == 0 || job.licences % each != 0)
        return error(ErrorKind::invalid,
                     "its licences (rgpu:%lu) do not divide into whole GPU shares of %d hundredths "
                     "on %u node%s; was job_submit_rgpu off when it was submitted?",
                     job.licences, request.share, job.nodes, job.nodes == 1 ? "" : "s");
    request.gpus = static_cast<int>(job.licences / each);
    request.filter = gpu_filter(job);
    request.owner.uid = job.uid;
    request.owner.user = job.user;
    request.owner.job = job.id;
    request.owner.node = node;
    request.owner.qos = job.qos;
    request.owner.account = job.account;
    request.owner.run = job.run;
    if (request.share == 0 && request.memory == 0)
        return Error{ErrorKind::invalid, "--rgpu-share: a share that begins at 0 needs --rgpu-mem"};
    return request;
}

void tell_of_job(const Job &job, const Error &error)
{
    openlog("rgpu", LOG_PID, LOG_DAEMON);
    syslog(LOG_ERR, "job %s: %s", job.id.c_str(), error.text.c_str());
    fprintf(stderr, "rgpu: job %s: %s\n", job.id.c_str(), error.text.c_str());
}

}  // namespace rgpu::slurm
