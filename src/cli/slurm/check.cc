// SPDX-License-Identifier: Apache-2.0
// rgpu slurm check: where Slurm and the pool disagree, and what to do about it.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <sys/stat.h>
#include <thread>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/parts/command.h"
#include "cli/slurm/rights.h"
#include "cli/slurm/tool.h"
#include "slurm/check/compare.h"
#include "slurm/check/drift.h"
#include "slurm/check/quotas.h"
#include "slurm/quotas/over_quota.h"
#include "util/format.h"

namespace rgpu::cli {
namespace {

// Slurm and the servers are asked one after the other, and jobs come and go meanwhile: what is
// still so after this is so.
constexpr Milliseconds kLookAgain{1000};

struct Seen {
    std::vector<slurm::Disagreement> all;
    size_t jobs = 0, leases = 0, silent = 0;
};

class Check : public Command {
public:
    void options(CLI::App &app) override
    {
        app.add_flag("--json", json_, "Print JSON");
        app.footer("Run it as root or SlurmUser, who see every job and every lease.\n"
                   "\n"
                   "Exit status: 0 all agree, 3 something does not, 123 so, and a server did not "
                   "answer, 1 Slurm could not be asked.");
    }

    int run(Context &context) override
    {
        auto config = context.config();
        if (!config) return fail(config.error());
        if (auto rights = sees_all_leases((*config)->auth); !rights) return fail(rights.error());
        auto client = context.pool();
        if (!client) return fail(client.error());
        auto seen = look(**config, *client);
        if (!seen) return fail(seen.error());
        if (!seen->all.empty()) {
            std::this_thread::sleep_for(kLookAgain);
            auto again = look(**config, *client);
            if (!again) return fail(again.error());
            // By what it is about: of something that goes on the numbers differ.
            std::erase_if(again->all, [&](const slurm::Disagreement &now) {
                return std::none_of(seen->all.begin(), seen->all.end(),
                                    [&](const slurm::Disagreement &before) {
                                        return before.check == now.check && before.of == now.of;
                                    });
            });
            seen = std::move(again);
        }
        fputs((json_ ? as_json(*seen) : as_text(*seen)).c_str(), stdout);
        return seen->all.empty() ? kOk : seen->silent ? kNoServer : kMarginal;
    }

private:
    static Result<Seen> look(const Config &config, pool::Client &client)
    {
        const SlurmConfig &slurm = config.slurm;
        auto squeue =
            run_tool({"squeue", "-h", "-a", "-t",
                      "RUNNING,SUSPENDED,CONFIGURING,COMPLETING,STOPPED", "-o", slurm::kJobFormat});
        auto lic = run_tool({"scontrol", "-o", "show", "lic"}),
             reservations = run_tool({"scontrol", "-o", "show", "reservation"});
        auto settings = run_tool({"scontrol", "show", "config"}),
             nodes = run_tool({"scontrol", "-o", "show", "node"});
        for (auto *asked : {&squeue, &lic, &reservations, &settings, &nodes})
            if (!*asked) return asked->error();
        pool::Inventories pool = client.inventory();
        auto snapshot = slurm::read_snapshot(slurm.snapshot);
        const slurm::Snapshot *known = snapshot ? &*snapshot : nullptr;
        std::vector<slurm::ActiveJob> jobs = slurm::parse_jobs(*squeue);
        std::erase_if(jobs, [](const slurm::ActiveJob &job) { return job.licences == 0; });
        Seen out{{}, jobs.size(), 0, unanswered(pool)};
        auto add = [&](std::vector<slurm::Disagreement> more) {
            out.all.insert(out.all.end(), more.begin(), more.end());
        };
        for (const auto &told : pool) {
            if (told.answer)
                out.leases += static_cast<size_t>(
                    std::count_if(told.answer->leases.begin(), told.answer->leases.end(),
                                  [](const pool::Lease &l) { return !l.owner.job.empty(); }));
            else
                add({{"server", "server " + told.server, told.answer.error().text,
                      "rgpu health --server " + told.server}});
        }
        add(slurm::compare_jobs(jobs, pool));
        if (auto licences = slurm::parse_licences(*lic))
            add_licences(
                *licences, slurm::parse_type_licences(*lic),
                slurm::parse_reserved(*reservations, slurm.reservation)
                    .value_or(slurm::OwnLicences()),
                [&](const slurm::Licences &sold, unsigned long reserved, const std::string &type) {
                    add(slurm::compare_licences(sold, jobs, pool, known, slurm.reservation,
                                                reserved, type));
                });
        else
            add({{"licence count", "licence rgpu", "Slurm does not sell it",
                  "rgpu slurm setup --apply writes the Licenses= line"}});
        add(slurm::compare_snapshot(known, pool));
        add(slurm::compare_config(*settings));
        add(slurm::compare_nodes(*nodes));
        if (slurm.over_quota) add(quotas(slurm, *settings));
        std::vector<pool::NodeConfig> configs;
        for (auto &told : client.node_configs())  // an older server has none
            if (told.answer)
                configs.insert(configs.end(), told.answer->nodes.begin(), told.answer->nodes.end());
        add(slurm::compare_node_configs(configs, slurm::config_digests(config),
                                        slurm::node_names(*nodes)));
        return out;
    }

    static std::vector<slurm::Disagreement> quotas(const SlurmConfig &config,
                                                   const std::string &settings)
    {
        std::optional<std::vector<slurm::Qos>> qos;
        if (auto shown = run_tool({"sacctmgr", "-n", "-P", "show", "qos", slurm::kQosFormat}))
            qos = slurm::parse_qos(*shown);
        std::optional<int64_t> since_run;
        struct stat stamp = {};
        if (stat(slurm::run_stamp(config.snapshot).c_str(), &stamp) == 0)
            since_run = std::max<int64_t>(0, time(nullptr) - stamp.st_mtime);
        return slurm::compare_quotas(settings, qos, since_run);
    }

    // Of the sum, and of each type: compare(what Slurm has, what is reserved, type).
    template <class Compare>
    static void add_licences(const slurm::Licences &sum,
                             const std::map<std::string, slurm::Licences> &types,
                             slurm::OwnLicences reserved, Compare compare)
    {
        compare(sum, reserved.sum, std::string());
        for (const auto &[type, licences] : types) compare(licences, reserved.types[type], type);
    }

    static std::string as_text(const Seen &seen)
    {
        std::string out;
        for (const slurm::Disagreement &d : seen.all) {
            // Each is named once.
            if (!d.of.starts_with(d.check + " ")) out += d.check + ": ";
            if (!d.found.starts_with(d.of)) out += d.of + ": ";
            out += d.found + "\n    " + d.cure + "\n";
        }
        std::string looked_at = counted(seen.jobs, "job") + " with GPUs of the pool, " +
                                counted(seen.leases, "lease");
        return out + looked_at + ": " +
               (seen.all.empty()       ? "all agree"
                : seen.all.size() == 1 ? "1 thing disagrees"
                                       : std::to_string(seen.all.size()) + " things disagree") +
               "\n";
    }

    static std::string as_json(const Seen &seen)
    {
        nlohmann::json found = nlohmann::json::array();
        for (const slurm::Disagreement &d : seen.all)
            found.push_back(
                {{"check", d.check}, {"of", d.of}, {"found", d.found}, {"cure", d.cure}});
        return nlohmann::json{{"jobs", seen.jobs},
                              {"leases", seen.leases},
                              {"silent_servers", seen.silent},
                              {"disagreements", found}}
                   .dump(2, ' ', false, nlohmann::json::error_handler_t::replace) +
               "\n";
    }

    bool json_ = false;
};

const Registered<Check> check{"slurm", "check",
                              "find where Slurm and the pool disagree, and say what to do"};

}  // namespace
}  // namespace rgpu::cli
