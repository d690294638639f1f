// What rgpu list and rgpu leases have in common: both show the servers' inventories.
#pragma once

#include <cstdio>
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
        app.add_option("--server", servers_, "Ask this server alone; several: a,b")
            ->type_name("NAME")
            ->delimiter(',')
            ->allow_extra_args(false);
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
    static int print(const std::string &text)
    {
        fputs(text.c_str(), stdout);
        return fflush(stdout) == 0 ? kOk
                                   : fail(error(ErrorKind::internal, "cannot write to stdout"));
    }

private:
    Show as_table_, as_json_;
    std::vector<std::string> servers_;
    bool json_ = false;
};

}  // namespace rgpu::cli
