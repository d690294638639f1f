#include "cli/parts/my_gpus.h"

#include <cstdlib>

#include <nlohmann/json.hpp>

#include "cli/parts/pool_view.h"
#include "cli/parts/table.h"
#include "util/units.h"

namespace rgpu::cli {

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

std::string my_table(const std::vector<pool::Grant> &grants)
{
    std::vector<std::vector<std::string>> rows = {
        {"GPU", "NAME", "MEMORY", "SHARE", "SERVER", "ADDRESS", "LEASE"}};
    for (const pool::Grant &grant : grants)
        for (const pool::Portion &gpu : grant.lease.gpus)
            rows.push_back({std::to_string(rows.size() - 1), gpu.name, human_size(gpu.memory),
                            share_text(gpu.share, gpu.most), grant.server, grant.data_address,
                            grant.lease.id.substr(0, 8)});
    return table(rows);
}

std::string my_json(const std::vector<pool::Grant> &grants, const std::string &file)
{
    using Json = nlohmann::json;
    Json gpus = Json::array();
    for (const pool::Grant &grant : grants)
        for (const pool::Portion &gpu : grant.lease.gpus)
            gpus.push_back({{"number", gpus.size()},
                            {"name", gpu.name},
                            {"uuid", gpu.uuid},
                            {"memory", gpu.memory},
                            {"share", gpu.share},
                            {"most", gpu.most},
                            {"server", grant.server},
                            {"address", grant.data_address},
                            {"lease", grant.lease.id}});
    return Json{{"file", file}, {"gpus", std::move(gpus)}}.dump(2, ' ', false,
                                                                Json::error_handler_t::replace) +
           "\n";
}

}  // namespace rgpu::cli
