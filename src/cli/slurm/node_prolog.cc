// SPDX-License-Identifier: Apache-2.0
// rgpu slurm node-prolog: writes a job's lease file on its node.
//
// For Prolog of slurmd, as root. It ends with 0 unless this node itself is unfit, for Slurm drains
// a node whose prolog fails.
#include <algorithm>
#include <thread>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include "cli/slurm/job_command.h"
#include "cli/slurm/job_files.h"
#include "pool/client/backoff.h"
#include "pool/client/client.h"
#include "pool/ledger/span.h"
#include "pool/messages/lease_json.h"
#include "slurm/check/drift.h"
#include "slurm/terms/paths.h"

namespace rgpu::cli {
namespace {

constexpr int kFetchTries = 4;

// A slurmctld that died in a job's prolog begins it anew when it is back, and the lease that the
// first one took may lie on a server which the second did not reach. What the job has paid for is
// one request: one lease, or those of one span.
Result<std::vector<pool::Grant>> release_others(pool::Client &client, const slurm::Job &job,
                                                const std::vector<pool::Grant> &grants)
{
    std::vector<pool::Grant> whole = pool::whole_request(grants), rest;
    if (whole.empty())
        return error(ErrorKind::internal, "job %s lost a part of its GPUs on node %s",
                     job.id.c_str(), job.node.c_str());
    for (const pool::Grant &grant : grants)
        if (std::none_of(whole.begin(), whole.end(),
                         [&](const pool::Grant &kept) { return kept.lease.id == grant.lease.id; }))
            rest.push_back(grant);
    if (auto released = client.release(rest); !released)
        slurm::tell_of_job(job, std::move(released).error().in("leases too many"));
    return whole;
}

Result<std::vector<pool::Grant>> fetch(Context &context, const slurm::Job &job)
{
    auto client = context.pool();
    if (!client) return client.error();
    const std::string digests = slurm::config_digests(**context.config());
    for (int n = 0;; ++n) {
        auto grants = client->grants(job.id, job.node, digests);
        if (grants && grants->empty())
            return error(ErrorKind::internal,
                         "no server holds a lease of job %s for node %s; did PrologSlurmctld run?",
                         job.id.c_str(), job.node.c_str());
        if (grants) return release_others(*client, job, *grants);
        if (n + 1 == kFetchTries) return grants;
        std::this_thread::sleep_for(pool::pause(n, 0.5));
    }
}

class NodeProlog : public JobCommand {
public:
    int run_for(slurm::Job &job, Context &context) override
    {
        auto config = context.config();
        if (!config) return fail_job(job, config.error());
        std::string path = slurm::lease_path((*config)->slurm.rundir, job.node, job.id);
        auto grants = fetch(context, job);
        // No fault of this node: the job's tasks are refused with this line, and the node stays.
        auto written =
            grants ? write_file(path, pool::lease_file(job.id, *grants), job.uid, kLeaseMode)
                   : write_file(slurm::error_path(path), grants.error().text, 0, kErrorMode);
        if (!written) return fail_job(job, written.error());
        unlink(slurm::ended_path(path).c_str());
        if (!grants) fail_job(job, grants.error());
        return kOk;
    }
};

const Registered<NodeProlog> node_prolog{"slurm", "node-prolog",
                                         "for Prolog: write the job's lease file on this node"};

}  // namespace
}  // namespace rgpu::cli
