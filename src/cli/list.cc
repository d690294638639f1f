// SPDX-License-Identifier: Apache-2.0
// rgpu list: what the pool has and who holds it, or what this process has of it.
#include "cli/parts/inventory_command.h"
#include "cli/parts/lease_file.h"
#include "cli/parts/my_gpus.h"

namespace rgpu::cli {
namespace {

class List : public InventoryCommand {
public:
    List() : InventoryCommand(pool_table, pool_json) {}

    void options(CLI::App &app) override
    {
        InventoryCommand::options(app);
        app.add_flag("--mine", mine_,
                     "Show the GPUs of this job alone, as its programs see them, and the link")
            ->excludes("--server");
    }

    int run(Context &context) override
    {
        if (!mine_) return InventoryCommand::run(context);
        Result<std::string> file = my_lease_file();
        if (!file) return fail(file.error());
        Result<std::vector<pool::Grant>> grants = read_lease_file(*file);
        if (!grants) return fail(grants.error());
        follow_sizes(context, *grants);
        const RoundTrips links = round_trips(*grants);
        return print(as_json() ? my_json(*grants, *file, links) : my_table(*grants, links));
    }

private:
    // The file says what the GPUs had at the job's start, and the servers what they have now; where
    // they cannot be asked it stays at that.
    static void follow_sizes(Context &context, std::vector<pool::Grant> &grants)
    {
        std::vector<std::string> servers;
        for (const pool::Grant &grant : grants) servers.push_back(grant.server);
        Result<pool::Client> client = context.pool(servers);
        if (!client) return;
        for (const auto &told : client->leases({}))
            for (const pool::Lease &lease : told.answer ? *told.answer : std::vector<pool::Lease>())
                for (pool::Grant &grant : grants)
                    if (grant.lease.id == lease.id && grant.lease.gpus.size() == lease.gpus.size())
                        grant.lease.gpus = lease.gpus;
    }

    bool mine_ = false;
};

const Registered<List> list{"", "list", "Show servers, GPUs, what is free, and who holds the rest"};

}  // namespace
}  // namespace rgpu::cli
