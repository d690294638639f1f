// SPDX-License-Identifier: Apache-2.0
#include "cli/parts/command.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include <CLI/CLI.hpp>

namespace rgpu::cli {

Result<const Config *> Context::config()
{
    if (!config_) {
        Result<Config> loaded = load_config(config_path(config_option));
        if (!loaded) return std::move(loaded).error();
        config_ = std::move(*loaded);
    }
    return &*config_;
}

Result<pool::Client> Context::pool(const std::vector<std::string> &only)
{
    Result<const Config *> read = config();
    if (!read) return std::move(read).error();
    if (only.empty()) return pool::Client::create(**read);
    Config config = **read;
    const std::vector<ServerEntry> all = std::exchange(config.servers, {});
    for (const std::string &name : only) {
        const auto is_named = [&](const ServerEntry &server) { return server.name == name; };
        const auto found = std::find_if(all.begin(), all.end(), is_named);
        if (found == all.end()) {
            std::string names;
            for (const ServerEntry &server : all)
                names += (names.empty() ? "" : ", ") + server.name;
            return error(ErrorKind::invalid, "%s has no server %s; it has %s", config.path.c_str(),
                         name.c_str(), names.empty() ? "none" : names.c_str());
        }
        if (std::none_of(config.servers.begin(), config.servers.end(), is_named))
            config.servers.push_back(*found);
    }
    return pool::Client::create(config);
}

std::vector<CommandEntry> &commands()
{
    static std::vector<CommandEntry> all;
    return all;
}

void add_servers(CLI::App &app, std::vector<std::string> &servers)
{
    app.add_option("--server", servers, "Ask this server alone; several: a,b")
        ->type_name("NAME")
        ->delimiter(',')
        ->allow_extra_args(false);
}

void add_job(CLI::App &app, std::string &job)
{
    app.add_option("job", job, "Its number, as squeue shows it: 14, or 14_3 of an array")
        ->required()
        ->type_name("JOB");
}

int print(const std::string &text)
{
    fputs(text.c_str(), stdout);
    return fflush(stdout) == 0 ? kOk : fail(error(ErrorKind::internal, "cannot write to stdout"));
}

int fail(const Error &error, int status)
{
    fprintf(stderr, "rgpu: %s\n", error.text.c_str());
    return status;
}

}  // namespace rgpu::cli
