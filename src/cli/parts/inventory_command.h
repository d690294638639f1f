// SPDX-License-Identifier: Apache-2.0
// What rgpu list and rgpu leases have in common: both show the servers' inventories.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/parts/command.h"
#include "cli/parts/pool_view.h"

namespace rgpu::cli {

// Asks every server for its inventory, and prints it as a table or as JSON.
class InventoryCommand : public Command {
public:
    using Show = std::string (*)(const pool::Inventories &);

    InventoryCommand(Show as_table, Show as_json) : as_table_(as_table), as_json_(as_json) {}

    void options(CLI::App &app) override
    {
        app.add_flag("--json", json_, "Print JSON");
        add_servers(app, servers_);
    }

    int run(Context &context) override
    {
        Result<pool::Client> client = context.pool(servers_);
        if (!client) return fail(client.error());
        pool::Inventories inventories = client->inventory();
        const int printed = print((json_ ? as_json_ : as_table_)(inventories));
        return printed == kOk && unanswered(inventories) == inventories.size() ? kNoServer
                                                                               : printed;
    }

protected:
    bool as_json() const { return json_; }

private:
    Show as_table_, as_json_;
    std::vector<std::string> servers_;
    bool json_ = false;
};

}  // namespace rgpu::cli
