// SPDX-License-Identifier: Apache-2.0
// rgpu idle: leases that nobody uses.
#include <algorithm>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/parts/command.h"
#include "cli/parts/pool_view.h"
#include "cli/parts/report.h"
#include "cli/parts/table.h"
#include "util/units.h"

namespace rgpu::cli {
namespace {

struct Unused {
    std::string server;
    pool::LeaseUsage usage;
};

class Idle : public Command {
public:
    void options(CLI::App &app) override
    {
        app.add_option("-t,--time", time_,
                       "Only those that were not used for this long, like 30m (10m)")
            ->type_name("TIME");
        app.add_flag("--json", json_, "Print JSON");
        add_servers(app, servers_);
        app.footer("Not used: no kernel ran, and no mebibyte went over the network. Others' leases "
                   "are shown to administrators. [pool] idle_warn and idle_end of rgpu.conf(5) "
                   "warn and end such jobs.");
    }

    int run(Context &context) override
    {
        const Result<Milliseconds> least = parse_duration(time_);
        if (!least) return fail(Error(least.error()).in("--time " + time_), kUsage);
        Result<pool::Client> client = context.pool(servers_);
        if (!client) return fail(client.error());
        std::vector<Unused> found;
        size_t asked = 0, silent = 0;
        for (auto &told : client->usages("")) {
            ++asked;
            if (!told.answer) {
                ++silent;
                (void)fail(told.answer.error());
                continue;
            }
            for (pool::LeaseUsage &usage : told.answer->leases)
                if (usage.idle_s * 1000 >= static_cast<double>(least->count()))
                    found.push_back({told.server, std::move(usage)});
        }
        if (asked == silent) return kNoServer;
        std::stable_sort(found.begin(), found.end(), [](const Unused &a, const Unused &b) {
            return a.usage.idle_s > b.usage.idle_s;
        });
        return print(json_ ? as_json(found) : as_text(found, *least));
    }

private:
    // In hundredths.
    static unsigned long gpus_of(const pool::LeaseUsage &usage)
    {
        unsigned long gpus = 0;
        for (const pool::GpuUsage &gpu : usage.gpus) gpus += static_cast<unsigned long>(gpu.share);
        return gpus;
    }

    static std::string as_text(const std::vector<Unused> &found, Milliseconds least)
    {
        std::vector<std::vector<std::string>> rows = {
            {"UNUSED FOR", "SERVER", "GPUS", "HELD BY", "HELD FOR", "LEASE"}};
        unsigned long gpus = 0;
        for (const auto &[server, usage] : found) {
            gpus += gpus_of(usage);
            rows.push_back({clock_of(usage.idle_s), server, gpus_text(gpus_of(usage)),
                            who_of(usage.owner), clock_of(usage.held_s), usage.lease.substr(0, 8)});
        }
        if (found.empty())
            return "no lease has gone unused for " + format_duration(least) + " or more\n";
        return table(rows) + "unused for " + format_duration(least) +
               " or more: " + gpus_text(gpus) + (gpus == kWholeGpu ? " GPU\n" : " GPUs\n");
    }

    static std::string as_json(const std::vector<Unused> &found)
    {
        using Json = nlohmann::json;
        Json leases = Json::array();
        for (const auto &[server, usage] : found) {
            Json gpus = Json::array();
            for (const pool::GpuUsage &gpu : usage.gpus)
                gpus.push_back({{"uuid", gpu.uuid}, {"name", gpu.name}, {"share", gpu.share}});
            leases.push_back({{"server", server},
                              {"lease", usage.lease},
                              {"idle_seconds", usage.idle_s},
                              {"held_seconds", usage.held_s},
                              {"user", user_of(usage.owner)},
                              {"job", usage.owner.job},
                              {"node", usage.owner.node},
                              {"host", usage.owner.host},
                              {"pid", usage.owner.pid},
                              {"gpus", std::move(gpus)}});
        }
        return Json{{"leases", std::move(leases)}}.dump(2, ' ', false,
                                                        Json::error_handler_t::replace) +
               "\n";
    }

    std::string time_ = "10m";
    std::vector<std::string> servers_;
    bool json_ = false;
};

const Registered<Idle> idle{"", "idle", "Show leases whose GPUs are not used"};

}  // namespace
}  // namespace rgpu::cli
