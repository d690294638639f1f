// SPDX-License-Identifier: Apache-2.0
// rgpu slurm prolog: takes a job's GPUs from the pool before it starts.
//
// For PrologSlurmctld, on the controller.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <ctime>

#include <CLI/CLI.hpp>

#include "cli/slurm/job_command.h"
#include "cli/slurm/job_record.h"
#include "cli/slurm/pay_for.h"
#include "cli/slurm/tool.h"
#include "cli/slurm/waiting.h"
#include "pool/client/backoff.h"
#include "pool/client/client.h"
#include "slurm/conf/hostlist.h"
#include "util/clock.h"

namespace rgpu::cli {
namespace {

// A server that is being restarted is back within seconds; where none answers for longer, waiting
// is no use.
constexpr Milliseconds kUnreachableLimit{10'000};
// Jobs that start together ask for the same GPUs, and what one is offered the others see locked for
// some milliseconds: the first pauses are short.
constexpr int kShortPauses = 3;

std::atomic<bool> stopped = false;

void stop(int) { stopped = true; }

// scancel of a job that is still waiting for GPUs ends its prolog.
void stop_on_signals()
{
    struct sigaction action = {};
    action.sa_handler = stop;
    for (int signal : {SIGTERM, SIGINT, SIGHUP}) sigaction(signal, &action, nullptr);
}

// Asks for all nodes in turn. Where one cannot be served now, those before it are given back, so
// that two jobs never wait for each other's GPUs.
Result<pool::Outcome> acquire_once(pool::Client &client, const slurm::Job &job,
                                   const std::vector<std::string> &nodes, bool local_first)
{
    std::vector<pool::Grant> had;
    for (const std::string &node : nodes) {
        auto request = slurm::request_for(job, node);
        if (!request) return request.error();
        if (local_first) client.prefer(node);
        auto answer = client.acquire(*request);
        if (answer && answer->kind == pool::Outcome::granted) {
            had.insert(had.end(), answer->grants.begin(), answer->grants.end());
            continue;
        }
        if (auto released = client.release(had); !released) return released.error();
        return answer;
    }
    return pool::Outcome{pool::Outcome::granted, {}, std::move(had)};
}

// Waits for GPUs that others hold; licences say that there are enough of them, but they may lie on
// several servers, or a server may be away. Servers that `good` leaves out are asked only where
// none of its own could ever serve the job.
Result<std::vector<pool::Grant>> acquire(pool::Client &good, pool::Client &all,
                                         const slurm::Job &job, const SlurmConfig &slurm)
{
    const Milliseconds limit = slurm.wait;
    pool::Client *client = &good;
    auto nodes = slurm::expand_hostlist(job.node_list);
    if (!nodes) return nodes.error();
    if (nodes->empty() || nodes->size() != job.nodes)
        return error(ErrorKind::invalid,
                     "SLURM_JOB_NODELIST '%s' does not have SLURM_JOB_NUM_NODES (%u) nodes",
                     job.node_list.c_str(), job.nodes);
    pool::Backoff backoff(kShortPauses);
    Waiting waiting(job, all);
    Time start = now(), answered = start;
    for (int n = 0;; ++n) {
        auto outcome = acquire_once(*client, job, *nodes, slurm.local_first);
        if (!outcome) return outcome.error();
        if (outcome->kind == pool::Outcome::granted) {
            waiting.over();
            return std::move(outcome->grants);
        }
        if (outcome->kind == pool::Outcome::never && client != &all) {
            client = &all;
            continue;
        }
        if (outcome->kind == pool::Outcome::never)
            return error(ErrorKind::unsupported, "no server can ever give this: %s",
                         outcome->reason.c_str());
        if (outcome->kind == pool::Outcome::later) {
            answered = now();
            // The job itself may be who has what it wants: by a prolog of this run before this
            // one, with which its slurmctld died, or by an earlier run, on a server that was away
            // when that ended and has just come back.
            if (n == kShortPauses || job.run > 0) (void)all.release_each(job.id);
        }
        if (now() - answered >= std::min(kUnreachableLimit, limit) &&
            outcome->kind != pool::Outcome::later)
            return error(ErrorKind::unavailable, "no server of the pool answers: %s",
                         outcome->reason.c_str());
        waiting.still(outcome->reason);
        if (now() - start >= limit)
            return error(ErrorKind::unavailable, "no GPUs within %s: %s",
                         format_duration(limit).c_str(), outcome->reason.c_str());
        if (!pool::sleep_until(now() + std::min(backoff.pause(n), limit),
                               [] { return stopped.load(); }))
            return Error{ErrorKind::unavailable,
                         "it was cancelled while it waited: " + outcome->reason};
    }
}

// Trying again cannot help: the request can never be served, or the configuration is wrong.
bool is_final(const Error &error)
{
    return error.kind == ErrorKind::invalid || error.kind == ErrorKind::unsupported;
}

// Of a failed prolog Slurm tells the user only that it failed, so the reason goes to the job's
// terminal first, and into its AdminComment. Slurm would start a batch job again and again: one
// that cannot be served is held.
void give_up(const slurm::Job &job, const Error &why)
{
    auto record = look_at(job.whole);
    const bool again = record && record->batch && record->requeue, held = again && is_final(why);
    std::string text = why.text;
    if (held)
        text += "; it is held: when that is mended, scontrol release " + job.whole;
    else if (again && !stopped)
        text += "; it is requeued, and tries again in some minutes";
    note_in_job(job, text);
    notify_job(job, text);
    slurm::tell_of_job(job, Error{why.kind, text});
    // Ends this prolog, too.
    if (held) (void)run_tool({"scontrol", "requeuehold", job.whole}).has_value();
}

// The servers that runs of the job before this one lost.
std::vector<std::string> lost_before(const slurm::Job &job)
{
    std::vector<std::string> names;
    if (job.run == 0) return names;
    auto record = look_at(job.whole);
    if (!record)
        slurm::tell_of_job(
            job, Error(record.error())
                     .in("its AdminComment, which names the servers to avoid, cannot be read"));
    else
        for (slurm::Avoided &server : slurm::avoided(record->comment, time(nullptr)))
            names.push_back(std::move(server.server));
    return names;
}

// Slurm 22.05 does not tell its prologs the QOS. It only matters where a GPU is shared, so others'
// jobs cost slurmctld no call. Without accounting there is none.
void look_up_qos(slurm::Job &job)
{
    if (!job.qos.empty() || job.share.empty()) return;
    Result<std::string> told = run_tool({"squeue", "-h", "-j", job.name, "-o", "%q"});
    if (!told) {
        slurm::tell_of_job(job, std::move(told).error().in("its QOS counts as an ordinary one"));
        return;
    }
    job.qos = told->substr(0, told->find('\n'));
    if (job.qos == "N/A" || job.qos == "(null)") job.qos.clear();
}

Result<void> prolog(slurm::Job &job, Context &context)
{
    look_up_qos(job);
    auto config = context.config();
    if (!config) return config.error();
    auto client = context.pool();
    if (!client) return client.error();
    if (auto servers = client->only(job.filters.servers); !servers)
        return std::move(servers).error().in("--rgpu-server");
    if (job.span) client->span();
    client->without_secrets();
    stop_on_signals();
    if (auto paid = pay_for(job, job.nodes); !paid) return paid;
    if (auto paid = pay_as_asked(job); !paid) return paid;
    // A run before this one may have left leases, where a server did not answer its epilog. One
    // that does not answer now either is not waited for: its lease says that it is of that run.
    if (job.run > 0)
        for (const auto &told : client->release_each(job.id))
            if (!told.answer && told.answer.error().kind != ErrorKind::disconnected)
                return told.answer.error();
    std::optional<pool::Client> others;
    if (auto lost = lost_before(job); !lost.empty()) {
        auto second = context.pool();
        if (!second) return second.error();
        others = std::move(*second);
        (void)others->only(job.filters.servers).has_value();  // as above
        if (job.span) others->span();
        others->without_secrets();
        others->without(lost);
    }
    auto acquired = acquire(others ? *others : *client, *client, job, (*config)->slurm);
    if (!acquired) {
        (void)client->release_job(job.id).has_value();
        return std::move(acquired).error();
    }
    // Jobs of this type then wait in Slurm for what this one has. Until the licences say so, rgpu
    // slurm sync reserves them.
    if (auto paid = pay_for_types(job, *acquired); !paid)
        slurm::tell_of_job(job, std::move(paid).error());
    return {};
}

class Prolog : public JobCommand {
public:
    int run_for(slurm::Job &job, Context &context) override
    {
        auto done = prolog(job, context);
        if (done) return kOk;
        give_up(job, done.error());
        return kFailed;
    }
};

const Registered<Prolog> prolog_command{"slurm", "prolog",
                                        "for PrologSlurmctld: take the job's GPUs from the pool"};

}  // namespace
}  // namespace rgpu::cli
