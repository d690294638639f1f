// rgpu slurm prolog, epilog: take a job's GPUs from the pool before it starts, give them back
// after.
//
// For PrologSlurmctld and EpilogSlurmctld, on the controller.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <ctime>
#include <random>
#include <thread>

#include <CLI/CLI.hpp>

#include "cli/slurm/await.h"
#include "cli/slurm/job_command.h"
#include "cli/slurm/keep.h"
#include "cli/slurm/lost_server.h"
#include "cli/slurm/record.h"
#include "cli/slurm/tool.h"
#include "pool/client/acquire.h"
#include "pool/client/client.h"
#include "slurm/conf/hostlist.h"
#include "slurm/terms/licences.h"
#include "util/clock.h"

namespace rgpu::cli {
namespace {

constexpr int kReleaseTries = 5;  // pauses of 0.1 to 0.8 s lie between them
// A server that is being restarted is back within seconds; where none answers for longer, waiting
// is no use.
constexpr Milliseconds kUnreachableLimit{10'000};
// The same for a job that has failed, before its server is taken for dead: rgpud's start asks the
// driver, which takes its time.
constexpr Milliseconds kRestartLimit{30'000};

std::atomic<bool> stopped = false;

void stop(int) { stopped = true; }

// scancel of a job that is still waiting for GPUs ends its prolog.
void stop_on_signals()
{
    struct sigaction action = {};
    action.sa_handler = stop;
    for (int signal : {SIGTERM, SIGINT, SIGHUP}) sigaction(signal, &action, nullptr);
}

Milliseconds jittered_pause(int n)
{
    static std::mt19937 engine(std::random_device{}());
    return pool::pause(n, std::uniform_real_distribution<double>(0, 1)(engine));
}

// Jobs that start together ask for the same GPUs, and what one is offered the others see locked for
// some milliseconds: the first pauses are short.
constexpr int kShortPauses = 3;

Milliseconds pause_for_gpus(int n)
{
    return n < kShortPauses ? jittered_pause(0) / (1 << (kShortPauses - n))
                            : jittered_pause(n - kShortPauses);
}

// False when a signal came.
bool sleep_unless_stopped(Milliseconds time)
{
    constexpr Milliseconds kLook{50};
    const Time end = now() + time;
    for (Time at = now(); at < end && !stopped; at = now())
        std::this_thread::sleep_for(std::min(kLook, Milliseconds(end - at)));
    return !stopped;
}

// Asks for all nodes in turn. Where one cannot be served now, those before it are given back, so
// that two jobs never wait for each other's GPUs.
Result<pool::Outcome> acquire_once(pool::Client &client, const SlurmJob &job,
                                   const std::vector<std::string> &nodes, bool local_first)
{
    std::vector<pool::Grant> had;
    for (const std::string &node : nodes) {
        auto request = request_for(job, node);
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
    return pool::Outcome{pool::Outcome::granted, {}, {}};
}

// Waits for GPUs that others hold; licences say that there are enough of them, but they may lie on
// several servers, or a server may be away. Servers that `good` leaves out are asked only where
// none of its own could ever serve the job.
Result<void> acquire(pool::Client &good, pool::Client &all, const SlurmJob &job,
                     const SlurmConfig &slurm)
{
    const Milliseconds limit = slurm.wait;
    pool::Client *client = &good;
    auto nodes = slurm::expand_hostlist(job.node_list);
    if (!nodes) return nodes.error();
    if (nodes->empty() || nodes->size() != job.nodes)
        return error(ErrorKind::invalid,
                     "SLURM_JOB_NODELIST '%s' does not have SLURM_JOB_NUM_NODES (%u) nodes",
                     job.node_list.c_str(), job.nodes);
    Time start = now(), answered = start;
    for (int n = 0;; ++n) {
        auto outcome = acquire_once(*client, job, *nodes, slurm.local_first);
        if (!outcome) return outcome.error();
        if (outcome->kind == pool::Outcome::granted) return {};
        if (outcome->kind == pool::Outcome::never && client != &all) {
            client = &all;
            continue;
        }
        if (outcome->kind == pool::Outcome::never)
            return error(ErrorKind::unsupported, "no server can ever give this: %s",
                         outcome->reason.c_str());
        if (outcome->kind == pool::Outcome::later) {
            answered = now();
            // A prolog of this run before this one, with which its slurmctld died, may be who has
            // what the job wants.
            if (n == kShortPauses) (void)all.release_each(job.id);
        }
        if (now() - answered >= std::min(kUnreachableLimit, limit) &&
            outcome->kind != pool::Outcome::later)
            return error(ErrorKind::unavailable, "no server of the pool answers: %s",
                         outcome->reason.c_str());
        if (now() - start >= limit)
            return error(ErrorKind::unavailable, "no GPUs within %s: %s",
                         format_duration(limit).c_str(), outcome->reason.c_str());
        if (!sleep_unless_stopped(std::min(pause_for_gpus(n), limit)))
            return Error{ErrorKind::unavailable,
                         "it was cancelled while it waited: " + outcome->reason};
    }
}

// What has been given back, and what it was used for.
struct Ended {
    unsigned leases = 0;
    int gpus = 0;
    std::vector<LostServer>
        lost;  // servers whose host was started again under the job, or that took its GPUs back
    slurm::JobUsage used;
};

// What could not be given back, and why not.
struct Rest {
    std::optional<Error> failure;
    std::vector<LostServer> silent;  // the servers that may have it
};

// A job that spans servers has as many GPUs as it paid for, on however many of them; of others each
// node has one lease.
bool is_all(const SlurmJob &job, const Ended &ended)
{
    if (!job.span) return ended.leases >= job.nodes;
    auto request = request_for(job, "");
    return request && ended.gpus >= request->gpus * static_cast<int>(job.nodes);
}

// When all has ended (`ended` counts it, try by try), a server that does not answer holds nothing.
// What programs of the job still use is left alone at first, and waited for. Without `usage`
// the workers' end is not: Slurm looks for the next job when the node's Epilog has ended, and at
// once only if this has ended before.
Rest release(pool::Client &client, const SlurmJob &job, bool usage, Milliseconds patience,
             Ended &ended)
{
    Time start = now();
    bool waited = false;
    for (int n = 0;; ++n) {
        Rest rest;
        bool busy = false;
        ended.used.silent.clear();
        for (auto &told : client.end_job(job.id, !waited, usage)) {
            if (told.answer) {
                busy |= told.answer->busy > 0;
                ended.leases += static_cast<unsigned>(told.answer->count);
                ended.gpus += told.answer->gpus;
                add(ended.used, told.server, told.answer->usage);
                if (told.answer->lost)
                    ended.lost.push_back(
                        {told.server,
                         "server " + told.server + ", whose host was started again under the job"});
                if (told.answer->withdrawn)
                    ended.lost.push_back(
                        {told.server,
                         "GPUs of server " + told.server + ", whose own host needs them", false});
                continue;
            }
            ended.used.silent.push_back(told.server);
            if (told.answer.error().kind == ErrorKind::disconnected)
                rest.silent.push_back({told.server, told.answer.error().text});
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
        std::this_thread::sleep_for(jittered_pause(std::min(n, kReleaseTries)));
    }
}

// The user sees of a failed prolog only that it failed; the reason stands in the job's
// AdminComment, behind which servers the job still avoids.
void note_in_job(const SlurmJob &job, const std::string &text)
{
    auto record = look_at(job.whole);
    std::string comment = record ? record->comment : "";
    (void)put_note(job.whole, comment, text, avoided(comment, time(nullptr))).has_value();
}

// The servers that runs of the job before this one lost.
std::vector<std::string> lost_before(const SlurmJob &job)
{
    std::vector<std::string> names;
    if (job.run == 0) return names;
    auto record = look_at(job.whole);
    if (!record)
        tell_of_job(job, Error(record.error()).in("whether it lost a server is not known"));
    else
        for (Avoided &server : avoided(record->comment, time(nullptr)))
            names.push_back(std::move(server.server));
    return names;
}

// Of a range of nodes the job has paid for the most. Slurm lets its operators change what a running
// job, or one that has just been requeued, holds.
Result<void> pay_for(SlurmJob &job, unsigned nodes)
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

// Slurm 22.05 does not tell its prologs the QOS. It only matters where a GPU is shared, so others'
// jobs cost slurmctld no call. Without accounting there is none.
void look_up_qos(SlurmJob &job)
{
    if (!job.qos.empty() || job.share.empty()) return;
    Result<std::string> told = run_tool({"squeue", "-h", "-j", job.name, "-o", "%q"});
    if (!told) {
        tell_of_job(job, std::move(told).error().in("its QOS counts as an ordinary one"));
        return;
    }
    job.qos = told->substr(0, told->find('\n'));
    if (job.qos == "N/A" || job.qos == "(null)") job.qos.clear();
}

Result<void> prolog(SlurmJob &job, Context &context)
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
    if (!acquired) (void)client->release_job(job.id).has_value();
    return acquired;
}

class Prolog : public JobCommand {
public:
    int run_for(SlurmJob &job, Context &context) override
    {
        auto done = prolog(job, context);
        if (done) return kOk;
        note_in_job(job, done.error().text);
        return fail_job(job, done.error());
    }
};

// The job has failed, and servers that had GPUs of it do not answer, or forgot its programs with
// all else. One that is only being restarted is waited for before its job is started again. A
// failure for another reason in such a moment is rare enough: the job runs once more. `note`: what
// was done, in words.
Rest lose(pool::Client &client, const SlurmConfig &slurm, const SlurmJob &job, Rest rest,
          Ended &ended, std::string &note)
{
    auto record = look_at(job.whole);
    if (!record) {
        tell_of_job(job, Error(record.error()).in("what becomes of it without its server"));
        return rest;
    }
    // Of a heterogeneous job each part has an epilog, and the first requeues all.
    if (record->restarts != job.run || !failed_by_itself(*record)) return rest;
    if (!rest.silent.empty() && fate_of(*record, slurm.lost_server, false) != Fate::leave)
        rest = release(client, job, true, std::min(kRestartLimit, slurm.lost_after), ended);
    std::vector<LostServer> lost = rest.silent;
    lost.insert(lost.end(), ended.lost.begin(), ended.lost.end());
    if (lost.empty()) return rest;
    auto done = lose_servers(slurm, job.whole, *record, lost, false);
    note = done ? *done : done.error().text;
    tell_of_job(job, done ? Error{ErrorKind::disconnected, *done} : done.error());
    return rest;
}

class Epilog : public JobCommand {
public:
    int run_for(SlurmJob &job, Context &context) override
    {
        auto config = context.config();
        if (!config) return fail_job(job, config.error());
        auto client = context.pool();
        if (!client) return fail_job(job, client.error());
        const SlurmConfig &slurm = (*config)->slurm;
        Ended ended;
        std::string note;
        const bool recorded = keeps_records();
        Rest rest = release(*client, job, job.failed || recorded, Milliseconds(0), ended);
        if (job.failed && (!rest.silent.empty() || !ended.lost.empty()))
            rest = lose(*client, slurm, job, std::move(rest), ended, note);
        // One that was requeued may get other nodes the next time. Slurm refuses it for a job that
        // has ended.
        (void)pay_for(job, job.most_nodes).has_value();
        // Slurm goes on with the job only when this ends: after what others wait for.
        if (auto kept = recorded ? keep_in_record(job, ended.used, note) : Result<void>(); !kept)
            tell_of_job(job, std::move(kept).error());
        return rest.failure ? fail_job(job, std::move(*rest.failure).in("giving its GPUs back"))
                            : kOk;
    }
};

const Registered<Prolog> prolog_command{"slurm", "prolog",
                                        "for PrologSlurmctld: take the job's GPUs from the pool"};
const Registered<Epilog> epilog_command{"slurm", "epilog",
                                        "for EpilogSlurmctld: give the job's GPUs back"};

}  // namespace
}  // namespace rgpu::cli
