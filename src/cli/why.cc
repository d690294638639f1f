// SPDX-License-Identifier: Apache-2.0
// rgpu why: what a job waits for, who holds that, until when, and what would start now.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/parts/command.h"
#include "cli/parts/pool_view.h"
#include "cli/parts/table.h"
#include "cli/slurm/tool.h"
#include "cli/slurm/words.h"
#include "slurm/jobs/alternatives.h"
#include "slurm/jobs/missing.h"
#include "slurm/jobs/pool_jobs.h"
#include "util/format.h"
#include "util/units.h"

namespace rgpu::cli {
namespace {

using slurm::PoolJob;
using Json = nlohmann::json;

Wanted wanted_of(const PoolJob &job)
{
    const auto share = static_cast<int>(job.share());
    return {job.gpus, job.type, {share, share}, job.nodes};
}

// All that is told of one job.
struct Told {
    PoolJob job;
    slurm::Obstacle obstacle = slurm::Obstacle::other;
    std::string why;
    std::string quota;                 // what is to be said of its quota
    std::vector<PoolJob> holders;      // of the pool's GPUs, and not this job
    std::vector<std::string> outside;  // programs outside Slurm that hold some
    std::optional<slurm::Licences> licences;
    const PoolJob *enough_after = nullptr;  // one of holders
    bool fits_now = false;
    std::vector<slurm::Alternative> alternatives;
    size_t silent = 0, servers = 0;
};

Result<std::vector<PoolJob>> queue(const std::vector<std::string> &which)
{
    std::vector<std::string> command = {"squeue", "-h", "-a", "-r"};
    command.insert(command.end(), which.begin(), which.end());
    command.insert(command.end(), {"-O", slurm::kPoolJobFormat});
    auto printed = run_tool(command);
    if (!printed) return std::move(printed).error();
    return slurm::parse_pool_jobs(*printed);
}

class Why : public Command {
public:
    void options(CLI::App &app) override
    {
        add_job(app, job_);
        app.add_flag("--json", json_, "Print JSON");
        app.footer("Why is my job pending? It asks squeue and the pool's servers. What a job chose "
                   "by --rgpu-server and the like is not in Slurm's record and not considered.\n"
                   "\n"
                   "Exit status: 0 it waits, and why is told; 1 Slurm could not be asked, or knows "
                   "no such job; 3 it does not wait for GPUs: it runs, has ended, or asked for "
                   "none.");
    }

    int run(Context &context) override
    {
        auto jobs = queue({"-t", "all", "-j", job_});
        if (!jobs) return fail(jobs.error());
        if (jobs->empty())
            return fail(error(ErrorKind::invalid,
                              "job %s: squeue shows no such job; sacct -j %s knows those that "
                              "ended some minutes ago",
                              job_.c_str(), job_.c_str()));
        Told told;
        told.job = jobs->front();
        if (!waits(told.job)) {
            const int printed = print(json_ ? as_json(told) : not_waiting(told.job));
            return printed == kOk ? kMarginal : printed;
        }
        if (auto asked = ask(told, context); !asked) return fail(asked.error());
        return print(json_ ? as_json(told) : as_text(told));
    }

private:
    // A job that Slurm has started may wait in its prolog.
    static bool waits(const PoolJob &job)
    {
        return job.licences.sum &&
               (job.waits() || (job.state == "CONFIGURING" && !job.prolog_note().empty()));
    }

    static std::string not_waiting(const PoolJob &job)
    {
        std::string text = "job " + job.id + " of " + job.user;
        if (!job.licences.sum && job.waits())
            return text + " waits, but asked for no GPUs of the pool: " +
                   slurm::explain(slurm::obstacle_of(job.reason), job.reason) + "\n";
        text += " does not wait: it is " + job.state;
        if (job.start) text += " since " + clock_text(job.start);
        const std::string quota = job.holds() ? slurm::about_quota(job, false) : "";
        return text + "\n" + (quota.empty() ? "" : "  " + quota + "\n");
    }

    static Result<void> ask(Told &told, Context &context)
    {
        const PoolJob &job = told.job;
        told.obstacle = slurm::obstacle_of(job.reason);
        told.why = job.waits() ? slurm::explain(told.obstacle, job.reason) : job.prolog_note();
        auto all = queue({});
        if (!all) return std::move(all).error();
        for (PoolJob &other : *all)
            if (other.holds() && other.licences.sum && other.id != job.id)
                told.holders.push_back(std::move(other));
        if (auto shown = run_tool({"scontrol", "-o", "show", "lic"}))
            told.licences = slurm::parse_licences(*shown);
        if (told.licences && told.obstacle == slurm::Obstacle::gpus) {
            const auto &[total, used] = *told.licences;
            const unsigned long free = total > used ? total - used : 0;
            if (job.licences.sum > free)
                told.enough_after = slurm::enough_after(told.holders, job.licences.sum - free);
        }
        auto config = context.config();
        if (!config) return config.error();
        told.quota = slurm::about_quota(job, (*config)->slurm.over_quota);
        Result<pool::Client> client = context.pool();
        if (!client) return std::move(client).error();
        const pool::Inventories pool = client->inventory();
        told.servers = pool.size(), told.silent = unanswered(pool);
        for (const auto &server : pool)
            for (size_t i = 0; server.answer && i < server.answer->leases.size(); i++)
                if (const pool::Lease &lease = server.answer->leases[i]; lease.owner.job.empty())
                    told.outside.push_back(
                        who_of(lease.owner) + ", " + counted(lease.gpus.size(), "GPU") + " of " +
                        server.answer->name + " since " + clock_text(lease.granted_at));
        told.fits_now = slurm::fits_now(job, pool);
        told.alternatives = slurm::alternatives(job, pool);
        return {};
    }

    static std::string as_text(const Told &told)
    {
        const PoolJob &job = told.job;
        std::string out = "job " + job.id + " of " + job.user + " wants " +
                          to_text(wanted_of(job)) + " and waits since " +
                          clock_text(job.submitted) + ":\n  " + told.why + "\n";
        if (!told.quota.empty()) out += "  " + told.quota + "\n";
        if (told.licences)
            out += "  " +
                   gpus_text(told.licences->total -
                             std::min(told.licences->total, told.licences->used)) +
                   " of " + gpus_text(told.licences->total) +
                   " GPUs are not taken by jobs, and it needs " + gpus_text(job.licences.sum) +
                   "\n";
        if (told.silent)
            out += "  " + counted(told.silent, "server") + " of " + std::to_string(told.servers) +
                   " does not answer; see rgpu list\n";
        out += held_by(told);
        if (job.waits() && job.start)
            out += "it is likely to start at " + clock_text(job.start) + ", Slurm estimates\n";
        else if (told.enough_after)
            out += "enough are free at " + clock_text(told.enough_after->end) +
                   " at the latest, when job " + told.enough_after->id +
                   " reaches its time limit\n";
        if (told.fits_now) out += "the pool itself could give it now what it asks for\n";
        if (told.alternatives.empty()) return out;
        std::vector<std::vector<std::string>> rows;
        for (const auto &[options, meaning] : told.alternatives)
            rows.push_back({"  " + options, meaning});
        return out + "the pool has enough free now for:\n" + table(rows);
    }

    static std::string held_by(const Told &told)
    {
        if (told.holders.empty() && told.outside.empty()) return "";
        std::string out = "who holds GPUs of the pool:\n";
        std::vector<std::vector<std::string>> rows = {
            {"  JOB", "USER", "GPUS", "SINCE", "ENDS AT THE LATEST"}};
        for (const PoolJob &holder : told.holders)
            rows.push_back({"  " + holder.id, holder.user, gpus_text(holder.licences.sum),
                            clock_text(holder.start), clock_text(holder.end)});
        if (!told.holders.empty()) out += table(rows);
        for (const std::string &program : told.outside) out += "  outside Slurm: " + program + "\n";
        return out;
    }

    static Json times(const PoolJob &job)
    {
        const auto or_null = [](int64_t at) { return at ? Json(at) : Json(); };
        return {{"job", job.id},
                {"user", job.user},
                {"state", job.state},
                {"licences", job.licences.sum},
                {"start", or_null(job.start)},
                {"end", or_null(job.end)}};
    }

    static std::string as_json(const Told &told)
    {
        Json out = times(told.job);
        out["submitted"] = told.job.submitted;
        out["reason"] = told.job.reason;
        out["waits"] = waits(told.job);
        out["qos"] = told.job.qos, out["moved_from"] = told.job.moved_from();
        if (waits(told.job)) {
            out["gpus"] = told.job.gpus, out["nodes"] = told.job.nodes;
            out["type"] = told.job.type, out["share"] = told.job.share();
            out["why"] = told.why;
            Json holders = Json::array(), now = Json::array();
            for (const PoolJob &holder : told.holders) holders.push_back(times(holder));
            for (const auto &[options, meaning] : told.alternatives)
                now.push_back({{"options", options}, {"meaning", meaning}});
            out["holders"] = std::move(holders), out["outside"] = told.outside;
            out["enough_after"] = told.enough_after ? Json(told.enough_after->id) : Json();
            out["fits_now"] = told.fits_now, out["alternatives"] = std::move(now);
            out["servers_silent"] = told.silent;
        }
        return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
    }

    std::string job_;
    bool json_ = false;
};

const Registered<Why> why{
    "", "why", "Say why a Slurm job is pending, who holds what it wants, and what would start now"};

}  // namespace
}  // namespace rgpu::cli
