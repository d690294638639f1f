// SPDX-License-Identifier: Apache-2.0
#include "cli/parts/predict_options.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include <CLI/CLI.hpp>

#include "cli/parts/lease_file.h"

namespace rgpu::cli {

namespace {

constexpr size_t kMostProcesses = 1000;

}  // namespace

CLI::Option *add_links(CLI::App &app, std::vector<std::string> &links)
{
    return app
        .add_option("--link", links,
                    "Predict for this link, too: a round trip and bits a second, like "
                    "home=20ms,50M, or what rgpu bench --json has printed, like "
                    "far=bench.json; may be repeated")
        ->type_name("[NAME=]LINK");
}

Result<std::vector<NamedLink>> parse_links(const std::vector<std::string> &links)
{
    std::vector<NamedLink> all;
    for (const std::string &text : links) {
        auto link = parse_link(text);
        if (!link) return Error(link.error()).in("--link");
        all.push_back(std::move(*link));
    }
    return all;
}

Result<std::vector<NamedLink>> measure_paths(Context &context, const std::vector<std::string> &only,
                                             std::vector<std::string> &unknown)
{
    std::vector<NamedLink> links;
    const auto config = context.config();
    if (!config) return config.error();
    auto client = context.pool(only);
    if (!client) return std::move(client).error();
    for (const ServerEntry &server : (*config)->servers) {
        if (!only.empty() && std::none_of(only.begin(), only.end(), [&](const auto &name) {
                return name == server.name || name == server.address;
            }))
            continue;
        auto link = measure_path(*client, server, (*config)->client.server_timeout);
        if (link)
            links.push_back(std::move(*link));
        else
            unknown.push_back(link.error().text);
    }
    return links;
}

Result<Recording> Recording::begin()
{
    if (const char *set = getenv("RGPU_STATS"); set && *set && strcmp(set, "0") != 0)
        return error(ErrorKind::invalid,
                     "--predict records by RGPU_STATS, which is set to %s: unset it, or set it to "
                     "a file like /tmp/%%p.json and give that to rgpu predict",
                     set);
    std::string folder = runtime_dir() + "/rgpu-predict.XXXXXX";
    if (!mkdtemp(folder.data()))
        return error(ErrorKind::invalid, "cannot make %s: %s; set TMPDIR", folder.c_str(),
                     strerror(errno));
    setenv("RGPU_STATS", (folder + "/%p.json").c_str(), 1);
    return Recording(folder);
}

Recording::~Recording()
{
    std::error_code ignored;
    if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

std::vector<RecordedProcess> Recording::processes() const
{
    std::vector<RecordedProcess> all;
    std::error_code failed;
    for (const auto &entry : std::filesystem::directory_iterator(folder_, failed)) {
        if (all.size() == kMostProcesses) {
            fprintf(stderr, "rgpu: the prediction knows of %zu processes, and there were more\n",
                    kMostProcesses);
            break;
        }
        auto recorded = read_recorded(entry.path());
        if (recorded)
            all.push_back(std::move(*recorded));
        else if (recorded.error().text.find("no forecast") == std::string::npos)
            (void)fail(recorded.error());
    }
    return all;
}

}  // namespace rgpu::cli
