// SPDX-License-Identifier: Apache-2.0
// rgpu slurm epilog: gives a job's GPUs back to the pool after it.
//
// For EpilogSlurmctld, on the controller.
#include <algorithm>
#include <thread>

#include <CLI/CLI.hpp>

#include "cli/slurm/accounting.h"
#include "cli/slurm/await_programs.h"
#include "cli/slurm/job_command.h"
#include "cli/slurm/job_record.h"
#include "cli/slurm/lose_servers.h"
#include "cli/slurm/pay_for.h"
#include "pool/client/backoff.h"
#include "pool/client/client.h"
#include "util/clock.h"

namespace rgpu::cli {
namespace {

constexpr int kReleaseTries = 5;  // pauses of 0.1 to 0.8 s lie between them
// How long a server of a job that has failed may be unreachable before it is taken for dead:
// rgpud's start asks the driver, which takes its time.
constexpr Milliseconds kRestartLimit{30'000};

// What has been given back, and what it was used for.
struct Ended {
    unsigned leases = 0;
    int gpus = 0;
    std::vector<slurm::LostServer> lost;  // servers whose host was started again under the job,
                                          // that took its GPUs back, or on which its worker died
    slurm::JobUsage used;
    int run = -1;  // of the leases that are in `used`
};

// What could not be given back, and why not.
struct Unreleased {
    std::optional<Error> failure;
    std::vector<slurm::LostServer> unreachable;  // the servers that may have it
};

// A job that spans servers has as many GPUs as it paid for, on however many of them; of others each
// node has one lease.
bool is_all(const slurm::Job &job, const Ended &ended)
{
    if (!job.span) return ended.leases >= job.nodes;
    auto request = slurm::request_for(job, "");
    return request && ended.gpus >= request->gpus * static_cast<int>(job.nodes);
}

// Adds up what the job's latest run used: what an earlier one used on a server that was away when
// it ended is not this one's. Of a job that is being requeued Slurm has counted the next run
// already.
void add_usage(Ended &ended, const std::string &server, std::vector<pool::LeaseUsage> usage)
{
    for (const pool::LeaseUsage &one : usage)
        if (one.owner.run > ended.run) {
            ended.run = one.owner.run;
            ended.used.gpus.clear();
            ended.used.servers.clear();
        }
    std::erase_if(usage, [&](const pool::LeaseUsage &one) {
        return one.owner.run >= 0 && one.owner.run < ended.run;
    });
    add(ended.used, server, usage);
}

// When all has ended (`ended` counts it, try by try), a server that does not answer holds nothing.
// What programs of the job still use is left alone at first, and waited for. Without `usage`
// the workers' end is not: Slurm looks for the next job when the node's Epilog has ended, and at
// once only if this has ended before.
Unreleased release(pool::Client &client, const slurm::Job &job, bool usage, Milliseconds patience,
                   Ended &ended)
{
    pool::Backoff backoff;
    Time start = now();
    bool waited = false;
    for (int n = 0;; ++n) {
        Unreleased rest;
        bool busy = false;
        ended.used.silent.clear();
        for (auto &told : client.end_job(job.id, !waited, usage)) {
            if (told.answer) {
                busy |= told.answer->busy > 0;
                ended.leases += static_cast<unsigned>(told.answer->count);
                ended.gpus += told.answer->gpus;
                add_usage(ended, told.server, told.answer->usage);
                if (told.answer->lost)
                    ended.lost.push_back(
                        {told.server,
                         "server " + told.server + ", whose host was started again under the job"});
                if (told.answer->withdrawn)
                    ended.lost.push_back(
                        {told.server,
                         "GPUs of server " + told.server + ", whose own host needs them", false});
                if (!told.answer->died.empty())
                    ended.lost.push_back(
                        {told.server, slurm::kDied + told.server + " (" + told.answer->died + ")"});
                continue;
            }
            ended.used.silent.push_back(told.server);
            if (told.answer.error().kind == ErrorKind::disconnected)
                rest.unreachable.push_back({told.server, told.answer.error().text});
            if (!rest.failure) rest.failure = std::move(told.answer).error();
        }
        if (busy) {
            await_programs(client, job);
            waited = true;
            start = now();
            n = -1;
            continue;
        }
        if (!rest.failure || is_all(job, ended)) return {};
        if (n + 1 >= kReleaseTries && now() - start >= patience) return rest;
        std::this_thread::sleep_for(backoff.pause(std::min(n, kReleaseTries)));
    }
}

// The job has failed, and servers that had GPUs of it do not answer, or forgot its programs with
// all else. One that is only being restarted is waited for before its job is started again. A
// failure for another reason in such a moment is rare enough: the job runs once more. `note`: what
// was done, in words.
Unreleased lose(pool::Client &client, const SlurmConfig &slurm, const slurm::Job &job,
                Unreleased rest, Ended &ended, std::string &note)
{
    auto record = look_at(job.whole);
    if (!record) {
        slurm::tell_of_job(job, Error(record.error()).in("what becomes of it without its server"));
        return rest;
    }
    // Of a heterogeneous job each part has an epilog, and the first requeues all.
    if (record->restarts != job.run || !slurm::failed_by_itself(*record)) return rest;
    if (!rest.unreachable.empty() &&
        slurm::fate_of(*record, slurm.lost_server, false) != slurm::Fate::leave)
        rest = release(client, job, true, std::min(kRestartLimit, slurm.lost_after), ended);
    std::vector<slurm::LostServer> lost = rest.unreachable;
    lost.insert(lost.end(), ended.lost.begin(), ended.lost.end());
    if (lost.empty()) return rest;
    auto done = lose_servers(slurm, job.whole, *record, lost, false);
    note = done ? *done : done.error().text;
    slurm::tell_of_job(job, done ? Error{ErrorKind::disconnected, *done} : done.error());
    return rest;
}

class Epilog : public JobCommand {
public:
    int run_for(slurm::Job &job, Context &context) override
    {
        auto config = context.config();
        if (!config) return fail_job(job, config.error());
        auto client = context.pool();
        if (!client) return fail_job(job, client.error());
        const SlurmConfig &slurm = (*config)->slurm;
        Ended ended;
        std::string note;
        const bool recorded = keeps_records();
        Unreleased rest = release(*client, job, job.failed || recorded, Milliseconds(0), ended);
        if (job.failed && (!rest.unreachable.empty() || !ended.lost.empty()))
            rest = lose(*client, slurm, job, std::move(rest), ended, note);
        // One that was requeued may get other nodes the next time.
        pay_as_submitted(job);
        // Slurm goes on with the job only when this ends: after what others wait for.
        if (auto kept = recorded ? record_usage(job, ended.used, note) : Result<void>(); !kept)
            slurm::tell_of_job(job, std::move(kept).error());
        return rest.failure ? fail_job(job, std::move(*rest.failure).in("giving its GPUs back"))
                            : kOk;
    }
};

const Registered<Epilog> epilog_command{"slurm", "epilog",
                                        "for EpilogSlurmctld: give the job's GPUs back"};

}  // namespace
}  // namespace rgpu::cli
