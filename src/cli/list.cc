// rgpu list, rgpu leases: what the pool has and who holds it.
#include <CLI/CLI.hpp>

#include "cli/parts/command.h"
#include "cli/parts/pool_view.h"

namespace rgpu::cli {
namespace {

// Both ask every server for its inventory and show it in their own way.
class View : public Command {
public:
    using Show = std::string (*)(const pool::Inventories &);

    View(Show as_table, Show as_json) : as_table_(as_table), as_json_(as_json) {}

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

class List : public View {
public:
    List() : View(pool_table, pool_json) {}
};

class Leases : public View {
public:
    Leases() : View(lease_table, lease_json) {}
};

const Registered<List> list{"", "list", "Show servers, GPUs, what is free, and who holds the rest"};
const Registered<Leases> leases{"", "leases", "Show the leases that you may see"};

}  // namespace
}  // namespace rgpu::cli
