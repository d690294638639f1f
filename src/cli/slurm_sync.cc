// rgpu slurm sync: writes the pool snapshot that job_submit reads.
//
// A server that does not answer keeps what the snapshot said of it: the file tells what could ever
// fit, and a server that is away comes back.
#include <algorithm>
#include <cstdio>
#include <filesystem>

#include <CLI/CLI.hpp>

#include "cli/command.h"
#include "plugin/snapshot.h"
#include "pool/client.h"

namespace rgpu::cli {
namespace {

plugin::PoolServer summary(const pool::Inventory &inventory, const std::string &name)
{
    plugin::PoolServer out{name, static_cast<unsigned>(inventory.gpus.size()), 0};
    for (const pool::GpuState &gpu : inventory.gpus)
        out.memory = std::max(out.memory, gpu.memory);
    return out;
}

const plugin::PoolServer *find(const plugin::Snapshot &pool, const std::string &name)
{
    for (const plugin::PoolServer &server : pool.servers)
        if (server.name == name)
            return &server;
    return nullptr;
}

class Sync : public Command {
public:
    void options(CLI::App &app) override
    {
        app.add_flag("-q,--quiet", quiet_, "Say nothing when all servers answered");
    }

    int run(Context &context) override
    {
        auto config = context.config();
        if (!config)
            return fail(config.error());
        auto client = context.pool();
        if (!client)
            return fail(client.error());
        const std::string &path = (*config)->slurm.snapshot;
        auto before = plugin::read_snapshot(path);
        std::vector<plugin::PoolServer> servers;
        int status = kOk;
        for (const auto &told : client->inventory()) {
            if (told.answer) {
                servers.push_back(summary(*told.answer, told.server));
                continue;
            }
            status = fail(told.answer.error(), kNoServer);
            if (const plugin::PoolServer *known = before ? find(*before, told.server) : nullptr)
                servers.push_back(*known);
        }
        std::error_code ignored;  // write_snapshot tells it better
        std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
        auto written = plugin::write_snapshot(path, servers);
        if (!written)
            return fail(written.error());
        if (!quiet_)
            tell(path, servers);
        return status;
    }

private:
    void tell(const std::string &path, const std::vector<plugin::PoolServer> &servers)
    {
        unsigned gpus = 0;
        for (const plugin::PoolServer &server : servers)
            gpus += server.gpus;
        printf("%s: %zu servers, %u GPUs; slurm.conf needs Licenses=rgpu:%u\n", path.c_str(), servers.size(), gpus,
               gpus * 100);
    }

    bool quiet_ = false;
};

const Registered<Sync> sync{"slurm", "sync", "write the size of the pool to the file that job_submit reads"};

}  // namespace
}  // namespace rgpu::cli
