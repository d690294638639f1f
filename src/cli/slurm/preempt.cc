// SPDX-License-Identifier: Apache-2.0
// rgpu slurm preempt: requeues over-quota jobs for those that wait for licences, where Slurm does
// not do it by itself, and lets jobs use what is over, where rgpu.conf says so.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <syslog.h>

#include <CLI/CLI.hpp>

#include "cli/parts/command.h"
#include "cli/slurm/tool.h"
#include "slurm/jobs/missing.h"
#include "slurm/quotas/over_quota.h"
#include "slurm/quotas/victims.h"
#include "slurm/terms/setting.h"

namespace rgpu::cli {
namespace {

// Slurm's own words for jobs that may not be requeued: not from a script, or --no-requeue. Its
// preemption cancels those.
bool cannot_be_requeued(const Error &error)
{
    return error.text.find("presently disabled") != std::string::npos ||
           error.text.find("Only batch jobs") != std::string::npos;
}

Result<std::string> make_way_by(const std::string &job)
{
    auto requeued = run_tool({"scontrol", "requeue", job});
    if (requeued) return std::string("requeued");
    if (!cannot_be_requeued(requeued.error())) return std::move(requeued).error();
    auto cancelled = run_tool({"scancel", job});
    return cancelled ? Result<std::string>("cancelled, as it cannot be requeued")
                     : Result<std::string>(std::move(cancelled).error());
}

// What Slurm says, as far as it matters.
struct Seen {
    std::vector<slurm::QueuedJob> queue;
    std::vector<slurm::Qos> qos;
    slurm::OwnLicences sold;
    bool native = false;   // Slurm preempts for licences by itself
    bool matters = false;  // somebody waits
    std::string cluster;
};

class Preempt : public Command {
public:
    void options(CLI::App &app) override
    {
        app.add_flag("-n,--dry-run", dry_run_,
                     "Only say which jobs would make way, and which would be moved");
        app.footer(
            "Jobs make way on Slurm before 23.02 only; a newer one does it by itself "
            "(PreemptParameters=reclaim_licenses).\n"
            "With [slurm] over_quota of rgpu.conf, batch jobs that wait for their QOS's limit "
            "on GPUs use idle ones, in the QOS that theirs\n"
            "preempts (any Slurm). Run it every few seconds (rgpu-preempt.timer), as root or "
            "SlurmUser.\n"
            "\n"
            "Exit status: 0 done, also where there was nothing to do; 1 Slurm could not be "
            "asked, or did not do it.");
    }

    int run(Context &context) override
    {
        auto config = context.config();
        if (!config) return fail(config.error());
        const SlurmConfig &slurm = (*config)->slurm;
        auto seen = look(slurm);
        if (!seen) return fail(seen.error());
        if (slurm.over_quota && !dry_run_) note_run(slurm::run_stamp(slurm.snapshot));
        if (!seen->matters) return kOk;
        openlog("rgpu", LOG_PID, LOG_DAEMON);
        slurm::Books books(seen->queue, seen->qos, seen->sold);
        const slurm::MadeWay made = make_way(seen->queue, books);
        int status = kOk;
        // Those with a claim come first.
        if (!seen->native)
            for (const slurm::Victim &victim : made.victims) requeue(victim, status);
        if (slurm.over_quota)
            if (auto done = move_jobs(*seen, books, made, status); !done) return fail(done.error());
        return status;
    }

private:
    // Most of the time nobody waits: then squeue is all that is asked.
    static Result<Seen> look(const SlurmConfig &config)
    {
        std::vector<std::string> command = {"squeue",
                                            "-h",
                                            "-a",
                                            "-t",
                                            "PENDING,CONFIGURING,RUNNING,SUSPENDED,STOPPED",
                                            "-O",
                                            slurm::kQueueFormat};
        if (config.over_quota) command.push_back("-r");
        auto squeue = run_tool(command);
        if (!squeue) return std::move(squeue).error();
        Seen seen;
        seen.queue = slurm::parse_queue(*squeue);
        seen.matters =
            std::any_of(seen.queue.begin(), seen.queue.end(), slurm::waits_for_licences) ||
            (config.over_quota && !slurm::movers(seen.queue).empty());
        if (!seen.matters) return seen;
        auto settings = run_tool({"scontrol", "show", "config"});
        auto lic = run_tool({"scontrol", "-o", "show", "lic"}),
             reservations = run_tool({"scontrol", "-o", "show", "reservation"});
        auto qos = run_tool({"sacctmgr", "-n", "-P", "show", "qos", slurm::kQosFormat});
        for (auto *asked : {&settings, &lic, &reservations, &qos})
            if (!*asked) return asked->error();
        auto licences = slurm::parse_licences(*lic);
        seen.native = settings->find("reclaim_licenses") != settings->npos;
        seen.matters = licences && (!seen.native || config.over_quota);
        if (!seen.matters) return seen;
        seen.cluster = slurm::setting(*settings, "ClusterName");
        seen.qos = slurm::parse_qos(*qos);
        const slurm::OwnLicences reserved =
            slurm::parse_reserved(*reservations, config.reservation).value_or(slurm::OwnLicences());
        auto without = [](unsigned long total, unsigned long part) {
            return total > part ? total - part : 0;
        };
        seen.sold.sum = without(licences->total, reserved.sum);
        for (const auto &[type, of] : slurm::parse_type_licences(*lic)) {
            auto held = reserved.types.find(type);
            seen.sold.types[type] =
                without(of.total, held == reserved.types.end() ? 0 : held->second);
        }
        return seen;
    }

    void requeue(const slurm::Victim &victim, int &status) const
    {
        const std::string why = "job " + victim.name + " (QOS " + victim.qos + ") for job " +
                                victim.for_job + " (QOS " + victim.for_qos + ")";
        if (dry_run_)
            printf("%s would make way\n", why.c_str());
        else
            tell(why, make_way_by(victim.name), status);
    }

    // Of those who may have to be moved, what they may use.
    Result<void> move_jobs(const Seen &seen, slurm::Books &books, const slurm::MadeWay &made,
                           int &status) const
    {
        std::string users;
        for (const std::string &user : slurm::movers(seen.queue))
            users += (users.empty() ? "" : ",") + user;
        if (users.empty()) return {};
        auto asked =
            run_tool({"sacctmgr", "-n", "-P", "show", "assoc", "where", "cluster=" + seen.cluster,
                      "user=" + users, slurm::kAssociationFormat});
        if (!asked) return std::move(asked).error();
        for (const slurm::Move &move : slurm::moves(
                 seen.queue, books, made, slurm::parse_associations(*asked), time(nullptr))) {
            const std::string why = "job " + move.job + " (QOS " + move.from + ")";
            if (dry_run_)
                printf("%s would be moved to QOS %s\n", why.c_str(), move.to.c_str());
            else
                tell(why, change(move), status);
        }
        return {};
    }

    static Result<std::string> change(const slurm::Move &move)
    {
        std::vector<std::string> command = {"scontrol", "update", "JobId=" + move.job};
        if (move.from != move.to) command.push_back("QOS=" + move.to);
        command.push_back("AdminComment=" + move.comment);
        auto done = run_tool(command);
        if (!done) return std::move(done).error();
        return move.from == move.to ? "stays where somebody has put it" : "moved to QOS " + move.to;
    }

    static void tell(const std::string &what, const Result<std::string> &done, int &status)
    {
        if (!done) {
            status = fail(Error(done.error()).in(what));
            return;
        }
        printf("%s: %s\n", what.c_str(), done->c_str());
        syslog(LOG_INFO, "%s: %s", what.c_str(), done->c_str());
    }

    // For rgpu slurm check. Where it cannot be written, that says so.
    static void note_run(const std::string &file)
    {
        (void)std::ofstream(file, std::ios::trunc).flush();
    }

    bool dry_run_ = false;
};

const Registered<Preempt> preempt{"slurm", "preempt",
                                  "requeue over-quota jobs for jobs within their quota (Slurm "
                                  "before 23.02); let jobs use what is "
                                  "over"};

}  // namespace
}  // namespace rgpu::cli
