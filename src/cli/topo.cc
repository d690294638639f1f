// SPDX-License-Identifier: Apache-2.0
// rgpu topo: how each server's GPUs lie.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/parts/command.h"
#include "cli/parts/table.h"
#include "pool/messages/host_json.h"

namespace rgpu::cli {
namespace {

using Topologies = std::vector<pool::Told<pool::Topology>>;

constexpr const char *kFooter =
    "Between GPUs, and to the network card that clients come over (CARD), the nearest first:\n"
    "  NV    NVLink\n"
    "  PIX   at most one PCIe bridge\n"
    "  PXB   several PCIe bridges\n"
    "  PHB   a PCIe host bridge (the CPU)\n"
    "  NODE  host bridges within a NUMA node\n"
    "  SYS   the link between NUMA nodes\n"
    "  ?     not known\n"
    "CPUS are those near the GPU, to which its workers are bound; - where all are.";

std::string topology_table(const pool::Topology &server)
{
    std::vector<std::string> head = {""};
    for (const auto &gpu : server.gpus) head.push_back("GPU" + std::to_string(gpu.index));
    for (const char *column : {"CARD", "NUMA", "CPUS", "PCI", "NAME"}) head.push_back(column);
    std::vector<std::vector<std::string>> rows = {head};
    for (size_t a = 0; a < server.gpus.size(); ++a) {
        const auto &gpu = server.gpus[a];
        std::vector<std::string> row = {"GPU" + std::to_string(gpu.index)};
        for (size_t b = 0; b < gpu.links.size(); ++b)
            row.push_back(a == b ? "X" : pool::name(gpu.links[b]));
        row.push_back(a < gpu.links.size() ? pool::name(gpu.links[a]) : "?");
        row.push_back(gpu.numa < 0 ? "-" : std::to_string(gpu.numa));
        row.push_back(gpu.cpus.empty() ? "-" : gpu.cpus);
        row.push_back(gpu.pci);
        row.push_back(gpu.name);
        rows.push_back(std::move(row));
    }
    return table(rows);
}

class Topo : public Command {
public:
    void options(CLI::App &app) override
    {
        app.add_option("--server", servers_,
                       "Only this server, by name or address; may be repeated")
            ->type_name("NAME");
        app.add_flag("--json", json_, "Print JSON");
        app.footer(kFooter);
    }

    int run(Context &context) override
    {
        Result<pool::Client> client = context.pool();
        if (!client) return fail(client.error());
        if (Result<void> only = client->only(servers_); !only) return fail(only.error(), kUsage);
        Topologies topologies = client->topology();
        fputs(json_ ? as_json(topologies).c_str() : as_text(topologies).c_str(), stdout);
        if (fflush(stdout) != 0) return fail(error(ErrorKind::internal, "cannot write to stdout"));
        for (const auto &told : topologies)
            if (told.answer) return kOk;
        return kNoServer;
    }

private:
    static std::string as_text(const Topologies &topologies)
    {
        std::string text;
        for (const auto &told : topologies) {
            if (!told.answer) {
                text += "no answer from " + told.answer.error().text + "\n";
                continue;
            }
            text += told.server +
                    (told.answer->card.empty() ? "" : ": network card " + told.answer->card) +
                    "\n" + topology_table(*told.answer);
        }
        return text;
    }

    static std::string as_json(const Topologies &topologies)
    {
        nlohmann::json servers = nlohmann::json::array(), unreachable = nlohmann::json::array();
        for (const auto &told : topologies) {
            if (!told.answer) {
                unreachable.push_back({{"name", told.server}, {"error", told.answer.error().text}});
                continue;
            }
            servers.push_back(nlohmann::json::parse(pool::encode(*told.answer)));
            servers.back()["name"] = told.server;
        }
        return nlohmann::json{{"servers", std::move(servers)},
                              {"unreachable", std::move(unreachable)}}
                   .dump(2, ' ', false, nlohmann::json::error_handler_t::replace) +
               "\n";
    }

    std::vector<std::string> servers_;
    bool json_ = false;
};

const Registered<Topo> topo{
    "", "topo", "Show how each server's GPUs lie: to each other, the network card and the CPUs"};

}  // namespace
}  // namespace rgpu::cli
