// SPDX-License-Identifier: Apache-2.0
// What rgpu drain and rgpu resume have in common: the server or GPU that they name.
#pragma once

#include <string>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/parts/command.h"
#include "pool/client/client.h"

namespace rgpu::cli {

// Its argument WHAT is "gpu1" or "gpu1:3" or "gpu1:GPU-...". A command says in change() what it
// does to it.
class DrainCommand : public Command {
public:
    void options(CLI::App &app) override
    {
        app.add_option("WHAT", what_,
                       "A server of rgpu.conf, or one of its GPUs: gpu1, gpu1:3, gpu1:GPU-<uuid>")
            ->required();
        app.add_flag("--json", json_, "Print JSON");
    }

    int run(Context &context) override
    {
        Result<pool::Client> client = context.pool();
        if (!client) return fail(client.error());
        size_t colon = what_.find(':');
        std::string gpu = colon == what_.npos ? "" : what_.substr(colon + 1);
        if (colon != what_.npos && gpu.empty())
            return fail(error(ErrorKind::invalid, "which GPU? Write %s0, or %s for all of them",
                              what_.c_str(), what_.substr(0, colon).c_str()),
                        kUsage);
        const std::string server = what_.substr(0, colon);
        Result<void> done = change(*client, server, gpu);
        if (done) {
            if (json_)
                puts(nlohmann::json{{"server", server}, {"gpu", gpu}, {"drained", drained()}}
                         .dump(2, ' ', false, nlohmann::json::error_handler_t::replace)
                         .c_str());
            else
                printf("%s %s\n", what_.c_str(), then());
            return kOk;
        }
        return fail(done.error(),
                    done.error().kind == ErrorKind::disconnected ? kNoServer : kFailed);
    }

protected:
    virtual Result<void> change(pool::Client &client, const std::string &server,
                                const std::string &gpu) = 0;
    // What it is then, behind its name.
    virtual const char *then() const = 0;
    virtual bool drained() const = 0;

private:
    std::string what_;
    bool json_ = false;
};

}  // namespace rgpu::cli
