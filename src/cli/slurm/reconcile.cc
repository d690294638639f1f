// SPDX-License-Identifier: Apache-2.0
#include "cli/slurm/reconcile.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <syslog.h>
#include <thread>

#include "cli/slurm/job_record.h"
#include "cli/slurm/lose_servers.h"
#include "cli/slurm/tool.h"
#include "slurm/jobs/runs.h"
#include "slurm/jobs/unreachable.h"

namespace rgpu::cli {
namespace {

// A server that is unreachable when its time is up is asked for this long once more: it may only
// just be restarted again.
constexpr Milliseconds kAskAgain{10'000}, kAskPause{500};

[[gnu::format(printf, 2, 3)]] void tell(bool quiet, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    openlog("rgpu", LOG_PID, LOG_DAEMON);
    syslog(LOG_WARNING, "%s", text);
    if (!quiet) printf("%s\n", text);
}

class Reconciliation {
public:
    Reconciliation(const SlurmConfig &slurm, pool::Client &client, bool quiet)
        : slurm_(slurm), client_(client), quiet_(quiet)
    {}

    Result<void> run(const pool::Inventories &pool, const std::vector<slurm::JobRun> &runs)
    {
        auto since =
            slurm::track_unreachable(slurm_.snapshot + ".silent", pool, slurm::since_boot());
        if (!since) return since.error();
        renew(runs, pool);
        return unreachable_for_long(*since, pool) ? give_up(runs) : Result<void>();
    }

private:
    void renew(const std::vector<slurm::JobRun> &runs, const pool::Inventories &pool)
    {
        for (const slurm::LeaseOf &lease : slurm::leases_to_renew(runs, pool))
            if (auto renewed = client_.renew(lease.server, lease.lease); !renewed)
                tell(quiet_, "job %s: its lease on %s is not renewed: %s", lease.job.c_str(),
                     lease.server.c_str(), renewed.error().text.c_str());
    }

    // All that are unreachable must have been so for long enough: which of them a job's GPUs are on
    // is not known.
    bool unreachable_for_long(const slurm::UnreachableSince &since, const pool::Inventories &pool)
    {
        if (since.empty()) return false;
        for (const auto &[server, time] : since)
            if (slurm::since_boot() - time < slurm_.lost_after) return false;
        if (since.size() < pool.size()) return true;
        // Nothing could serve the jobs if they were started again, and perhaps it is this host that
        // sees nobody.
        tell(quiet_, "no server has answered for %s: check this host's network; no job is given up",
             format_duration(slurm_.lost_after).c_str());
        return false;
    }

    // Asked after Slurm was: a job that runs had its leases before.
    pool::Inventories ask_again()
    {
        Time end = now() + std::min(kAskAgain, slurm_.lost_after);
        for (;;) {
            pool::Inventories pool = client_.inventory();
            if (unanswered(pool) == 0 || now() >= end) return pool;
            std::this_thread::sleep_for(kAskPause);
        }
    }

    Result<void> give_up(const std::vector<slurm::JobRun> &runs)
    {
        pool::Inventories pool = ask_again();
        std::vector<slurm::LostServer> lost;
        for (const auto &told : pool)
            if (slurm::is_unreachable(told))
                lost.push_back({told.server, told.answer.error().text});
        if (lost.empty()) return {};
        for (const slurm::JobRun &run : slurm::runs_that_miss(runs, pool))
            if (auto done = give_up(run, lost); !done) return done;
        return {};
    }

    Result<void> give_up(const slurm::JobRun &run, const std::vector<slurm::LostServer> &lost)
    {
        // scontrol shows all parts of a heterogeneous job for its leader's number, and the part for
        // the part's.
        auto record = look_at(run.name.find('+') == run.name.npos ? run.name : run.id);
        if (!record) return record.error();
        // It has ended meanwhile, or been requeued with another part of it.
        if ((record->state != "RUNNING" && record->state != "SUSPENDED") ||
            record->restarts != run.restarts)
            return {};
        bool left = slurm::fate_of(*record, slurm_.lost_server, true) == slurm::Fate::leave;
        if (left && record->comment.find(slurm::kRunsOn) != record->comment.npos)
            return {};  // it has been told
        auto done = lose_servers(slurm_, run.whole(), *record, lost, true);
        tell(quiet_, "job %s: %s", run.whole().c_str(),
             done ? done->c_str() : done.error().text.c_str());
        if (done && left)
            (void)run_tool({"scontrol", "notify", run.whole(), "rgpu: " + *done}).has_value();
        return {};
    }

    const SlurmConfig &slurm_;
    pool::Client &client_;
    bool quiet_;
};

}  // namespace

Result<std::vector<slurm::JobRun>> look_at_runs()
{
    auto squeue = run_tool({"squeue", "-h", "-a", "-O", slurm::kRunFormat});
    return squeue ? Result<std::vector<slurm::JobRun>>(slurm::parse_runs(*squeue)) : squeue.error();
}

size_t end_stale_leases(pool::Client &client, const pool::Inventories &pool,
                        const std::vector<slurm::JobRun> &runs, bool quiet)
{
    const std::vector<slurm::LeaseOf> all = slurm::stale_leases(runs, pool);
    for (const slurm::LeaseOf &stale : all) {
        auto released = client.release(stale.server, stale.lease);
        tell(quiet, "job %s: its lease on %s of a run before this one: %s", stale.job.c_str(),
             stale.server.c_str(), released ? "ended" : released.error().text.c_str());
    }
    return all.size();
}

Result<void> reconcile(const SlurmConfig &slurm, pool::Client &client,
                       const pool::Inventories &pool, const std::vector<slurm::JobRun> &runs,
                       bool quiet)
{
    return Reconciliation(slurm, client, quiet).run(pool, runs);
}

}  // namespace rgpu::cli
