// SPDX-License-Identifier: Apache-2.0
// rgpu health: is this host, is each server, is the way between them fit for work, and what to do
// where not.
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <map>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/parts/command.h"
#include "cli/parts/path_checks.h"
#include "cli/parts/table.h"

namespace rgpu::cli {
namespace {

using health::Finding;
using health::Findings;
using health::Verdict;

constexpr const char *kFooter = "PASS, INFO (neither good nor bad), MARGINAL (it works, and could "
                                "work better), SKIPPED (why it could not be looked at)\n"
                                "or FATAL (it does not work, or gives wrong results). A server "
                                "with a FATAL check lends nothing "
                                "until it passes. doc/health.md explains each.\n"
                                "\n"
                                "Exit status: 0 nothing worse than SKIPPED, 3 something is "
                                "MARGINAL, 4 something is FATAL; 1 an error, 2 wrong usage.";

// Of one host: this one, or a server as it says of itself with the way to it.
struct Part {
    std::string host;
    Findings findings;
};

size_t count(const Part &part, Verdict verdict)
{
    return static_cast<size_t>(
        std::count_if(part.findings.begin(), part.findings.end(),
                      [&](const Finding &f) { return f.verdict == verdict; }));
}

constexpr Verdict kVerdicts[] = {Verdict::pass, Verdict::info, Verdict::marginal, Verdict::skipped,
                                 Verdict::fatal};

std::string totals(const Part &part)
{
    std::string text;
    for (Verdict verdict : kVerdicts)
        if (verdict != Verdict::info || count(part, verdict))
            text += (text.empty() ? "" : ", ") + std::to_string(count(part, verdict)) + " " +
                    pool::name(verdict);
    return text;
}

class Health : public Command {
public:
    void options(CLI::App &app) override
    {
        app.add_option("--server", servers_,
                       "Only this server, by name or address; may be repeated")
            ->type_name("NAME");
        app.add_flag("--local", local_, "Only this host; no server is asked");
        app.add_flag("-a,--all", all_, "Show what passes and what only informs, too");
        app.add_flag("--json", json_, "Print JSON: everything");
        app.footer(kFooter);
    }

    int run(Context &context) override
    {
        auto config = context.config();
        if (!config) return fail(config.error());
        std::vector<Part> parts = {this_host(**config)};
        if (!local_)
            if (Result<void> asked = ask_servers(context, **config, parts); !asked)
                return fail(asked.error(),
                            asked.error().kind == ErrorKind::invalid && !servers_.empty()
                                ? kUsage
                                : kFailed);
        fputs(json_ ? as_json(parts).c_str() : as_text(parts).c_str(), stdout);
        if (fflush(stdout) != 0) return fail(error(ErrorKind::internal, "cannot write to stdout"));
        bool marginal = false;
        for (const Part &part : parts) {
            if (count(part, Verdict::fatal)) return kFatal;
            marginal |= count(part, Verdict::marginal) != 0;
        }
        return marginal ? kMarginal : kOk;
    }

private:
    static Part this_host(const Config &config)
    {
        char name[HOST_NAME_MAX + 1] = {};
        gethostname(name, HOST_NAME_MAX);
        health::Host host;
        host.interposer_dir = config.client.interposer_dir;
        host.library_path = config.client.library_path;
        Part part{std::string("this host (") + name + ")", health::examine(host)};
        if (lends(config, name))
            part.findings.push_back(health::configured_driver(host, config.rgpud.driver));
        return part;
    }

    // A [[server]] line names this host.
    static bool lends(const Config &config, std::string_view host)
    {
        return std::any_of(config.servers.begin(), config.servers.end(),
                           [&](const ServerEntry &server) {
                               return server.name == config.rgpud.name ||
                                      server.address.substr(0, server.address.rfind(':')) == host;
                           });
    }

    Result<void> ask_servers(Context &context, const Config &config, std::vector<Part> &parts)
    {
        Told settings;
        Result<pool::Client> client = context.pool();
        if (!client) return std::move(client).error();
        if (Result<void> only = client->only(servers_); !only) return only;
        for (pool::Told<pool::Health> &told : client->health()) {
            const ServerEntry *entry = nullptr;
            for (const ServerEntry &server : config.servers)
                if (server.name == told.server) entry = &server;
            Part part{told.server, look_at_path({*entry,
                                                 *client,
                                                 config.client.server_timeout,
                                                 config.client.library_path,
                                                 {}})};
            if (!told.answer) {
                // Where the port does not even answer, that is said already.
                if (!count(part, Verdict::fatal))
                    add(part, health::fatal("", told.answer.error().text, "it tells its health",
                                            "see the error; rgpud's log on the server says more "
                                            "(journalctl -u rgpud)"));
            } else if (told.answer->findings.empty()) {
                add(part,
                    health::skipped(
                        "", "that rgpud does not look at its health ([rgpud] health_check = 0)"));
            } else {
                for (const Finding &finding : told.answer->findings)
                    if (finding.check == "settings") add_to(settings, finding.value, told.server);
                part.findings.insert(part.findings.end(), told.answer->findings.begin(),
                                     told.answer->findings.end());
            }
            parts.push_back(std::move(part));
        }
        if (config.servers.size() > 1 && servers_.empty())
            parts.push_back(all_alike(*client, settings));
        return {};
    }

    // By what they say, the servers that say so.
    using Told = std::map<std::string, std::string>;

    static void add_to(Told &told, const std::string &what, const std::string &server)
    {
        (told[what] += told[what].empty() ? "" : ", ") += server;
    }

    // Programs find the same on each server only where these are equal.
    static Part all_alike(pool::Client &client, const Told &settings)
    {
        Part part{"all servers", {}};
        Told versions, drivers, kinds;
        for (const pool::Told<pool::Inventory> &told : client.inventory()) {
            if (!told.answer) continue;
            const pool::Inventory &inventory = *told.answer;
            add_to(versions, "rgpu " + inventory.version, told.server);
            add_to(drivers,
                   inventory.driver_release.empty() ? "a driver that tells no release"
                                                    : inventory.driver_release,
                   told.server);
            add_to(kinds, inventory.software ? "software GPUs" : "GPUs", told.server);
        }
        part.findings = {alike("versions", versions, "install the same rgpu on all servers"),
                         alike("drivers", drivers,
                               "install the same driver on all servers, or let jobs choose with "
                               "--rgpu-min-driver"),
                         alike("kinds", kinds,
                               "set driver = \"nvidia\" below [rgpud] on servers with real GPUs"),
                         alike("settings", settings,
                               "set the same below [rgpud] in rgpu.conf on all servers, then "
                               "systemctl restart rgpud")};
        return part;
    }

    static Finding alike(const char *check, const Told &found, const char *cure)
    {
        std::string value;
        for (const auto &[what, servers] : found)
            value += (value.empty() ? "" : "; ") + what + " on " + servers;
        Finding finding = found.empty()       ? health::skipped("", "no server answers")
                          : found.size() == 1 ? health::pass("", found.begin()->first, "equal")
                                              : health::marginal("", value, "equal", cure);
        finding.check = check;
        return finding;
    }

    static void add(Part &part, Finding finding)
    {
        finding.check = "health";
        part.findings.push_back(std::move(finding));
    }

    std::string as_text(const std::vector<Part> &parts) const
    {
        std::string text;
        for (const Part &part : parts) {
            text += part.host + ": " + totals(part) + "\n";
            std::vector<std::vector<std::string>> rows;
            std::vector<const Finding *> shown;
            for (const Finding &f : part.findings)
                if (all_ || f.verdict > Verdict::info) shown.push_back(&f);
            for (const Finding *f : shown)
                rows.push_back({"  " + std::string(pool::name(f->verdict)),
                                f->check + (f->of.empty() ? "" : " of " + f->of),
                                f->value + (f->limit.empty() ? "" : " (" + f->limit + ")")});
            // What to do stands below what is wrong.
            std::string lines = rows.empty() ? "" : table(rows);
            for (const Finding *f : shown) {
                size_t end = lines.find('\n') + 1;
                text += lines.substr(0, end);
                lines.erase(0, end);
                if (!f->cure.empty()) text += "            " + f->cure + "\n";
            }
        }
        return text;
    }

    static std::string as_json(const std::vector<Part> &parts)
    {
        nlohmann::json hosts = nlohmann::json::array();
        for (const Part &part : parts) {
            nlohmann::json checks = nlohmann::json::array(), sums;
            for (const Finding &f : part.findings)
                checks.push_back({{"check", f.check},
                                  {"of", f.of},
                                  {"verdict", pool::name(f.verdict)},
                                  {"value", f.value},
                                  {"limit", f.limit},
                                  {"cure", f.cure}});
            for (Verdict verdict : kVerdicts) sums[pool::name(verdict)] = count(part, verdict);
            hosts.push_back(
                {{"host", part.host}, {"checks", std::move(checks)}, {"totals", std::move(sums)}});
        }
        return nlohmann::json{{"hosts", std::move(hosts)}}.dump(
                   2, ' ', false, nlohmann::json::error_handler_t::replace) +
               "\n";
    }

    std::vector<std::string> servers_;
    bool local_ = false, all_ = false, json_ = false;
};

const Registered<Health> command{
    "", "health", "Check this host, every server and the way to it, and say what to do"};

}  // namespace
}  // namespace rgpu::cli
