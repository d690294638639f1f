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
        const RoundTrips links = round_trips(*grants);
        return print(as_json() ? my_json(*grants, *file, links) : my_table(*grants, links));
    }

private:
    bool mine_ = false;
};

const Registered<List> list{"", "list", "Show servers, GPUs, what is free, and who holds the rest"};

}  // namespace
}  // namespace rgpu::cli
