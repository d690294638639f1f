// SPDX-License-Identifier: Apache-2.0
// rgpu resize: another share and other memory for GPUs whose programs run.
#include <algorithm>
#include <cstdio>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/parts/command.h"
#include "cli/parts/pool_view.h"
#include "cli/parts/table.h"
#include "cli/slurm/follow_sizes.h"
#include "cli/slurm/reconcile.h"
#include "cli/slurm/rights.h"
#include "cli/slurm/tool.h"
#include "pool/client/resize.h"
#include "slurm/jobs/missing.h"
#include "slurm/terms/request.h"
#include "util/units.h"

namespace rgpu::cli {
namespace {

using Grants = std::vector<pool::Grant>;

constexpr size_t kShownId = 8;  // digits of a lease's id in rgpu leases

// How many hundredths of GPUs these have.
long hundredths(const Grants &grants)
{
    long sum = 0;
    for (const pool::Grant &grant : grants) sum += static_cast<long>(slurm::paid(grant.lease));
    return sum;
}

// As rgpu run and --rgpu-share write it: "0.5", "50%", "50", "30-100".
Result<ShareRange> share_of(const std::string &text)
{
    Result<ShareRange> share = parse_share_range(text);
    if (share) return share;
    const auto of_slurm = slurm::parse_share(text);
    if (!of_slurm) return share;
    return ShareRange{static_cast<int>(of_slurm->least), static_cast<int>(of_slurm->most)};
}

class Resize : public Command {
public:
    void options(CLI::App &app) override
    {
        app.add_option("JOB", target_, "The Slurm job, or a lease (rgpu leases)")->required();
        app.add_option("-p,--share", share_,
                       "Part of each GPU's time from now on: 50 or 0.5, or a range, 30-100")
            ->type_name("SHARE");
        app.add_option("-m,--mem,--memory", memory_,
                       "Memory of each GPU from now on: 20G; more than is in use")
            ->type_name("SIZE");
        app.add_option("--node", node_, "Of a Slurm job: only the GPUs of this node")
            ->type_name("NODE");
        app.add_flag("--json", json_, "Print what the leases have now as JSON");
        app.footer(
            "What is not named stays as it is. Programs go on; what cuMemGetInfo and nvidia-smi "
            "tell them follows.\n"
            "All GPUs get the new size, or none. The licences of a Slurm job follow: at once for "
            "root and SlurmUser,\nelse with the next rgpu slurm sync.\n"
            "\n"
            "Exit status: 0 done; 1 it cannot be done; 2 wrong usage; 122 not now: no room, or "
            "more memory is in use;\n123 a server does not answer.");
    }

    int run(Context &context) override
    {
        auto wanted = size();
        if (!wanted) return fail(wanted.error(), kUsage);
        auto client = context.pool();
        if (!client) return fail(client.error());
        Result<Grants> before = find(*client);
        if (!before) return refused(before.error());
        const bool slurm_job = !before->front().lease.owner.job.empty();
        if (slurm_job)
            if (auto room = licences_left(*wanted, *before); !room) return refused(room.error());
        Result<Grants> now = pool::resize_all(*client, *before, *wanted);
        if (!now) return refused(now.error());
        const bool follows = slurm_job && hundredths(*before) != hundredths(*now);
        const bool followed = follows && pay(context, *client);
        if (json_) return print(as_json(*now));
        if (const int printed = print(as_table(*before, *now)); printed != kOk) return printed;
        if (follows && !followed)
            printf("Slurm's licences of job %s follow with the next rgpu slurm sync.\n",
                   before->front().lease.owner.job.c_str());
        return kOk;
    }

private:
    static int refused(const Error &error)
    {
        switch (error.kind) {
        case ErrorKind::disconnected: return fail(error, kNoServer);
        case ErrorKind::exhausted:
        case ErrorKind::unavailable: return fail(error, kNotInTime);
        default: return fail(error);
        }
    }

    Result<pool::Resize> size() const
    {
        pool::Resize wanted;
        if (share_.empty() && memory_.empty())
            return error(ErrorKind::invalid, "resize to what? Give --share, --mem, or both; see "
                                             "rgpu resize --help");
        if (!share_.empty()) {
            auto share = share_of(share_);
            if (!share) return std::move(share).error().in("--share");
            wanted.share = share->least;
            wanted.most = share->most;
        }
        if (!memory_.empty()) {
            auto memory = parse_size(memory_);
            if (!memory) return std::move(memory).error().in("--mem");
            if (*memory == 0) return error(ErrorKind::invalid, "--mem: must not be 0");
            wanted.memory = *memory;
        }
        return wanted;
    }

    // The leases of the job, or the one that the word begins.
    Result<Grants> find(pool::Client &client) const
    {
        const pool::Inventories pool = client.inventory();
        // The number of a job that has ended must not meet a lease that begins so.
        const bool job_only = target_.size() < kShownId &&
                              target_.find_first_not_of("0123456789") == target_.npos;
        Grants of_job, by_id;
        const Error *silent = nullptr;
        for (const auto &told : pool) {
            if (!told.answer) {
                silent = silent ? silent : &told.answer.error();
                continue;
            }
            for (const pool::Lease &lease : told.answer->leases) {
                if (lease.owner.job == target_ && (node_.empty() || lease.owner.node == node_))
                    of_job.push_back({told.server, "", lease});
                if (!job_only && lease.id.starts_with(target_))
                    by_id.push_back({told.server, "", lease});
            }
        }
        if (!of_job.empty() && silent)
            return Error(*silent).in("whether the job has GPUs there, too, is not known, and "
                                     "nothing was changed");
        if (!of_job.empty()) return of_job;
        if (by_id.empty() && silent) return *silent;
        if (by_id.empty() || !node_.empty())
            return error(ErrorKind::invalid,
                         "there is no job%s %s%s%s that you may resize; see rgpu leases",
                         job_only ? "" : " or lease", target_.c_str(),
                         node_.empty() ? "" : " on node ", node_.c_str());
        if (by_id.size() > 1)
            return error(ErrorKind::invalid, "%zu leases begin with %s: give more digits",
                         by_id.size(), target_.c_str());
        return by_id;
    }

    // What Slurm has given to other jobs is theirs, although their leases may not be there yet.
    // Where Slurm is not asked here, the servers decide alone.
    static Result<void> licences_left(const pool::Resize &wanted, const Grants &before)
    {
        Grants after = before;
        for (pool::Grant &grant : after)
            for (pool::Portion &gpu : grant.lease.gpus)
                gpu.share = wanted.share.value_or(gpu.share);
        const long more = hundredths(after) - hundredths(before);
        if (more <= 0) return {};
        auto shown = run_tool({"scontrol", "-o", "show", "lic"});
        auto sold = shown ? slurm::parse_licences(*shown) : std::nullopt;
        if (!sold) return {};
        const long left = static_cast<long>(sold->total) - static_cast<long>(sold->used);
        if (more <= left) return {};
        return error(ErrorKind::exhausted,
                     "it takes %ld licences more, and Slurm has %ld left: it has given the others "
                     "to jobs (scontrol show lic)",
                     more, std::max(left, 0L));
    }

    // At once, where Slurm lets this user.
    static bool pay(Context &context, pool::Client &client)
    {
        auto config = context.config();
        if (!config || !sees_all_leases((*config)->auth)) return false;
        auto runs = look_at_runs();
        auto followed = runs ? follow_sizes(client.inventory(), *runs, true)
                             : Result<size_t>(std::move(runs).error());
        return followed && *followed > 0;
    }

    static std::string as_table(const Grants &before, const Grants &now)
    {
        std::vector<std::vector<std::string>> rows = {
            {"LEASE", "SERVER", "GPU", "SHARE", "MEMORY", "BEFORE"}};
        for (size_t i = 0; i < now.size(); ++i)
            for (size_t g = 0; g < now[i].lease.gpus.size(); ++g) {
                const pool::Portion &gpu = now[i].lease.gpus[g];
                const auto &all = before[i].lease.gpus;
                rows.push_back(
                    {now[i].lease.id.substr(0, 8), now[i].server, std::to_string(gpu.index),
                     share_text(gpu.share, gpu.most), human_size(gpu.memory),
                     g < all.size()
                         ? share_text(all[g].share, all[g].most) + ", " + human_size(all[g].memory)
                         : ""});
            }
        return table(rows);
    }

    static std::string as_json(const Grants &now)
    {
        nlohmann::json leases = nlohmann::json::array();
        for (const pool::Grant &grant : now) {
            nlohmann::json gpus = nlohmann::json::array();
            for (const pool::Portion &gpu : grant.lease.gpus)
                gpus.push_back({{"number", gpu.index},
                                {"uuid", gpu.uuid},
                                {"share", gpu.share},
                                {"most", gpu.most},
                                {"memory", gpu.memory}});
            leases.push_back({{"id", grant.lease.id},
                              {"server", grant.server},
                              {"job", grant.lease.owner.job},
                              {"gpus", std::move(gpus)}});
        }
        return nlohmann::json{{"leases", std::move(leases)}}.dump(
                   2, ' ', false, nlohmann::json::error_handler_t::replace) +
               "\n";
    }

    std::string target_, share_, memory_, node_;
    bool json_ = false;
};

const Registered<Resize> resize{"", "resize",
                                "Give a running job or lease another share and other memory"};

}  // namespace
}  // namespace rgpu::cli
