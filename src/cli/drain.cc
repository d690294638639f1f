// SPDX-License-Identifier: Apache-2.0
// rgpu drain: takes a server or a GPU out of the pool.
#include "cli/parts/drain_command.h"

namespace rgpu::cli {
namespace {

class Drain : public DrainCommand {
public:
    void options(CLI::App &app) override
    {
        DrainCommand::options(app);
        app.add_option("-r,--reason", reason_, "Why, for those who look")->type_name("TEXT");
    }

private:
    Result<void> change(pool::Client &client, const std::string &server,
                        const std::string &gpu) override
    {
        return client.drain(server, {gpu, reason_, 0});
    }

    const char *then() const override
    {
        return "is drained: nothing more of it is lent. Who has it keeps it; rgpu leases shows "
               "whom";
    }

    bool drained() const override { return true; }

    std::string reason_;
};

const Registered<Drain> drain{"", "drain",
                              "Lend nothing more of a server or a GPU; who has it keeps it"};

}  // namespace
}  // namespace rgpu::cli
