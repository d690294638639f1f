// SPDX-License-Identifier: Apache-2.0
// Digests of a node's configuration, and those that differ.
#include "slurm/check/drift.h"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "slurm/conf/plan.h"
#include "util/next_token.h"
#include "util/sha256.h"

namespace rgpu::slurm {
namespace {

constexpr size_t kDigits = 12;

std::string word(const std::string &part, const std::string &text)
{
    return part + ":" + to_hex(sha256(text)).substr(0, kDigits);
}

std::string table(const std::string &name, Config &config, ServerEntry &server)
{
    std::string out;
    for (const ConfigKey &key : config_keys())
        if (key.table == name)
            out += std::string(key.name) + "=" + written(key.field(config, server)) + "\n";
    return out;
}

// How people call a part.
std::string called(const std::string &part)
{
    if (part == "version") return "rgpu itself (its version)";
    return part == "plugstack" ? "plugstack.conf (the line of spank_rgpu.so)"
                               : "rgpu.conf ([" + part + "])";
}

std::string ago(int64_t ms)
{
    int64_t minutes = ms / 60000;
    return minutes < 2     ? "a minute"
           : minutes < 120 ? std::to_string(minutes) + " minutes"
                           : std::to_string(minutes / 60) + " hours";
}

}  // namespace

std::string config_digests(Config config)
{
    std::vector<std::string> servers;
    for (ServerEntry &server : config.servers) servers.push_back(table("server", config, server));
    std::sort(servers.begin(), servers.end());
    std::string all, out = "version:" RGPU_VERSION;
    for (const std::string &server : servers) all += server + "\n";
    out += " " + word("server", all);
    ServerEntry none;
    for (const char *name : {"auth", "client", "slurm"})
        out += " " + word(name, table(name, config, none));
    if (const char *conf = getenv("SLURM_CONF"))
        if (auto site = read_site(conf); site && !site->spank.empty())
            out += " " + word("plugstack", site->spank);
    return out;
}

std::vector<Disagreement> compare_node_configs(const std::vector<pool::NodeConfig> &told,
                                               const std::string &own,
                                               const std::vector<std::string> &known)
{
    std::map<std::string, const pool::NodeConfig *> last;
    for (const pool::NodeConfig &one : told)
        if (std::find(known.begin(), known.end(), one.node) != known.end())
            if (auto &kept = last[one.node]; !kept || one.age_ms < kept->age_ms) kept = &one;
    // Part, digest, who has it; the controller is the one without a name.
    std::map<std::string, std::map<std::string, std::vector<std::string>>> parts;
    auto add = [&](const std::string &node, std::string_view words) {
        while (!words.empty()) {
            std::string_view one = next_token(words, " ");
            if (size_t colon = one.find(':'); colon != one.npos)
                parts[std::string(one.substr(0, colon))][std::string(one.substr(colon + 1))]
                    .push_back(node);
        }
    };
    add("", own);
    for (const auto &[node, config] : last) add(node, config->config);
    std::vector<Disagreement> out;
    for (const auto &[part, digests] : parts) {
        // Of two equally frequent ones the controller's counts.
        auto weight = [](const auto &d) {
            return 2 * d.second.size() + (d.second[0].empty() ? 1 : 0);
        };
        auto most =
            std::max_element(digests.begin(), digests.end(),
                             [&](const auto &a, const auto &b) { return weight(a) < weight(b); });
        for (const auto &[digest, nodes] : digests)
            for (const std::string &node : nodes)
                if (digest != most->first)
                    out.push_back(
                        {"configuration", node.empty() ? "this machine" : "node " + node,
                         "its " + called(part) + " differs from most machines'",
                         node.empty()
                             ? "have the same on all machines; rgpu config shows what is read"
                             : "have the same on all machines; this was seen when it last ran a "
                               "job with GPUs, " +
                                   ago(last[node]->age_ms) +
                                   " ago, and goes with the next (srun -w " + node +
                                   " --gres=rgpu:1 true)"});
    }
    return out;
}

}  // namespace rgpu::slurm
