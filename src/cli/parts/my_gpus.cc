// SPDX-License-Identifier: Apache-2.0
#include "cli/parts/my_gpus.h"

#include <cstdio>
#include <cstdlib>

#include <nlohmann/json.hpp>

#include "cli/parts/link.h"
#include "cli/parts/pool_view.h"
#include "cli/parts/table.h"
#include "util/units.h"

namespace rgpu::cli {
namespace {

constexpr int kTries = 9;
constexpr Milliseconds kPatience{1000};

std::string link_text(double us)
{
    char text[32];
    snprintf(text, sizeof text, us < 1000 ? "%.0f us" : "%.1f ms", us < 1000 ? us : us / 1000);
    return text;
}

}  // namespace

Result<std::string> my_lease_file()
{
    const char *path = getenv("RGPU_LEASE");
    if (!path || !*path)
        return error(
            ErrorKind::invalid,
            "this process has no remote GPUs: RGPU_LEASE is not set. Slurm sets it in jobs "
            "with --gres=rgpu:N, and rgpu run for its command");
    return std::string(path);
}

RoundTrips round_trips(const std::vector<pool::Grant> &grants)
{
    RoundTrips links;
    for (const pool::Grant &grant : grants) {
        Result<Latency> measured = measure_tcp(grant.data_address, kPatience, kTries);
        links.push_back(measured ? std::optional(measured->p50) : std::nullopt);
    }
    return links;
}

std::string my_table(const std::vector<pool::Grant> &grants, const RoundTrips &links)
{
    std::vector<std::vector<std::string>> rows = {
        {"GPU", "NAME", "MEMORY", "SHARE", "SERVER", "ADDRESS", "LINK", "LEASE"}};
    for (size_t i = 0; i < grants.size(); ++i) {
        const pool::Grant &grant = grants[i];
        const std::string link = links[i] ? link_text(*links[i]) : "no answer";
        for (const pool::Portion &gpu : grant.lease.gpus)
            rows.push_back({std::to_string(rows.size() - 1), gpu.name, human_size(gpu.memory),
                            share_text(gpu.share, gpu.most), grant.server, grant.data_address, link,
                            grant.lease.id.substr(0, 8)});
    }
    return table(rows);
}

std::string my_json(const std::vector<pool::Grant> &grants, const std::string &file,
                    const RoundTrips &links)
{
    using Json = nlohmann::json;
    Json gpus = Json::array();
    for (size_t i = 0; i < grants.size(); ++i) {
        const pool::Grant &grant = grants[i];
        for (const pool::Portion &gpu : grant.lease.gpus) {
            gpus.push_back({{"number", gpus.size()},
                            {"name", gpu.name},
                            {"uuid", gpu.uuid},
                            {"memory", gpu.memory},
                            {"share", gpu.share},
                            {"most", gpu.most},
                            {"server", grant.server},
                            {"address", grant.data_address},
                            {"lease", grant.lease.id}});
            if (!links.empty()) gpus.back()["round_trip_us"] = links[i] ? Json(*links[i]) : Json();
        }
    }
    return Json{{"file", file}, {"gpus", std::move(gpus)}}.dump(2, ' ', false,
                                                                Json::error_handler_t::replace) +
           "\n";
}

}  // namespace rgpu::cli
