// SPDX-License-Identifier: Apache-2.0
// rgpu slurm preempt: requeues over-quota jobs for those that wait for licences, where Slurm does
// not do it by itself.
#include <algorithm>
#include <cstdio>
#include <syslog.h>

#include <CLI/CLI.hpp>

#include "cli/parts/command.h"
#include "cli/slurm/tool.h"
#include "slurm/jobs/missing.h"
#include "slurm/jobs/victims.h"

namespace rgpu::cli {
namespace {

// Slurm's own words for jobs that may not be requeued: not from a script, or --no-requeue. Its
// preemption cancels those.
bool cannot_be_requeued(const Error &error)
{
    return error.text.find("presently disabled") != std::string::npos ||
           error.text.find("Only batch jobs") != std::string::npos;
}

Result<const char *> make_way(const std::string &job)
{
    auto requeued = run_tool({"scontrol", "requeue", job});
    if (requeued) return "requeued";
    if (!cannot_be_requeued(requeued.error())) return std::move(requeued).error();
    auto cancelled = run_tool({"scancel", job});
    return cancelled ? Result<const char *>("cancelled, as it cannot be requeued")
                     : Result<const char *>(std::move(cancelled).error());
}

class Preempt : public Command {
public:
    void options(CLI::App &app) override
    {
        app.add_flag("-n,--dry-run", dry_run_, "Only say which jobs would make way");
        app.footer("For Slurm before 23.02; a newer one does it by itself "
                   "(PreemptParameters=reclaim_licenses), and this command then\n"
                   "nothing. Run it every few seconds (rgpu-preempt.timer), as root or another "
                   "operator of Slurm.\n"
                   "\n"
                   "Exit status: 0 done, also where nobody had to make way; 1 Slurm could not be "
                   "asked, or a job could not be requeued.");
    }

    int run(Context &context) override
    {
        auto config = context.config();
        if (!config) return fail(config.error());
        auto chosen = look((*config)->slurm.reservation);
        if (!chosen) return fail(chosen.error());
        int status = kOk;
        openlog("rgpu", LOG_PID, LOG_DAEMON);
        for (const slurm::Victim &victim : *chosen) {
            const std::string why = "job " + victim.name + " (QOS " + victim.qos + ") for job " +
                                    victim.for_job + " (QOS " + victim.for_qos + ")";
            if (dry_run_) {
                printf("%s would make way\n", why.c_str());
                continue;
            }
            auto done = make_way(victim.name);
            if (!done) {
                status = fail(std::move(done).error().in(why));
                continue;
            }
            printf("%s: %s\n", why.c_str(), *done);
            syslog(LOG_INFO, "%s: %s", why.c_str(), *done);
        }
        return status;
    }

private:
    // Most of the time nobody waits: then squeue is all that is asked.
    static Result<std::vector<slurm::Victim>> look(const std::string &reservation)
    {
        auto squeue =
            run_tool({"squeue", "-h", "-a", "-t", "PENDING,CONFIGURING,RUNNING,SUSPENDED,STOPPED",
                      "-o", slurm::kQueueFormat});
        if (!squeue) return std::move(squeue).error();
        std::vector<slurm::QueuedJob> queue = slurm::parse_queue(*squeue);
        if (std::none_of(queue.begin(), queue.end(), slurm::waits_for_licences))
            return std::vector<slurm::Victim>{};
        auto settings = run_tool({"scontrol", "show", "config"});
        auto lic = run_tool({"scontrol", "-o", "show", "lic"}),
             reservations = run_tool({"scontrol", "-o", "show", "reservation"});
        auto qos = run_tool({"sacctmgr", "-n", "-P", "show", "qos", slurm::kQosFormat});
        for (auto *asked : {&settings, &lic, &reservations, &qos})
            if (!*asked) return asked->error();
        auto licences = slurm::parse_licences(*lic);
        if (!licences || settings->find("reclaim_licenses") != settings->npos)
            return std::vector<slurm::Victim>{};
        const slurm::OwnLicences reserved =
            slurm::parse_reserved(*reservations, reservation).value_or(slurm::OwnLicences());
        auto without = [](unsigned long total, unsigned long part) {
            return total > part ? total - part : 0;
        };
        slurm::OwnLicences sold{without(licences->total, reserved.sum), {}};
        for (const auto &[type, of] : slurm::parse_type_licences(*lic)) {
            auto held = reserved.types.find(type);
            sold.types[type] = without(of.total, held == reserved.types.end() ? 0 : held->second);
        }
        return slurm::victims(queue, slurm::parse_qos(*qos), sold);
    }

    bool dry_run_ = false;
};

const Registered<Preempt> preempt{
    "slurm", "preempt", "requeue over-quota jobs for jobs within their quota (Slurm before 23.02)"};

}  // namespace
}  // namespace rgpu::cli
