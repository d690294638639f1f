// What rgpu list and rgpu leases have in common: both show the servers' inventories.
#pragma once

#include <cstdio>
#include <string>

#include <CLI/CLI.hpp>

#include "cli/parts/command.h"
#include "cli/parts/pool_view.h"

namespace rgpu::cli {

// Asks every server for its inventory, and prints it as a table or as JSON.
class InventoryCommand : public Command {
public:
    using Show = std::string (*)(const pool::Inventories &);

    InventoryCommand(Show as_table, Show as_json) : as_table_(as_table), as_json_(as_json) {}

    void options(CLI::App &app) override { app.add_flag("--json", json_, "Print JSON"); }

    int run(Context &context) override
    {
        Result<pool::Client> client = context.pool();
        if (!client) return fail(client.error());
        pool::Inventories inventories = client->inventory();
        std::string text = (json_ ? as_json_ : as_table_)(inventories);
        fputs(text.c_str(), stdout);
        if (fflush(stdout) != 0) return fail(error(ErrorKind::internal, "cannot write to stdout"));
        return unanswered(inventories) == inventories.size() ? kNoServer : kOk;
    }

private:
    Show as_table_, as_json_;
    bool json_ = false;
};

}  // namespace rgpu::cli
