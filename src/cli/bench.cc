// SPDX-License-Identifier: Apache-2.0
// rgpu bench: what the way to a GPU costs, and which programs it slows down.
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/parts/command.h"
#include "cli/parts/lease_file.h"
#include "cli/parts/link.h"
#include "cli/parts/table.h"

namespace rgpu::cli {
namespace {

constexpr const char *kFooter =
    "Measures the first GPU that this process has (in a job, or under rgpu run). Without one it "
    "leases a GPU of the\n"
    "server, or of any, and measures that.\n"
    "\n"
    "Exit status: 0 measured, 1 the GPU or the driver failed; else as rgpu run.";

std::string text_of(double value, const char *unit)
{
    char text[64];
    snprintf(text, sizeof text,
             value < 10    ? "%.2f%s%s"
             : value < 100 ? "%.1f%s%s"
                           : "%.0f%s%s",
             value, *unit ? " " : "", unit);
    return text;
}

nlohmann::json json_of(const Latency &l)
{
    return {{"p50_us", l.p50}, {"p90_us", l.p90}, {"p99_us", l.p99}, {"max_us", l.most}};
}

std::string json_of(const Link &link, const std::string &server)
{
    nlohmann::json json = {
        {"gpu", link.gpu},      {"server", server},         {"call", json_of(link.call)},
        {"post_us", link.post}, {"verdict", verdict(link)}, {"packing_pays", packing_pays(link)}};
    json["tcp_connect"] = link.tcp ? json_of(*link.tcp) : nlohmann::json();
    for (const Bandwidth &b : link.bandwidth)
        json["bandwidth"].push_back(
            {{"bytes", b.bytes}, {"to_gpu_GBps", b.to_gpu}, {"from_gpu_GBps", b.from_gpu}});
    for (const Profile &profile : kProfiles)
        json["slow_down"].push_back(
            {{"program", profile.what}, {"factor", slow_down(profile, link)}});
    return json.dump(2) + "\n";
}

std::string text_of(const Link &link, const std::string &server)
{
    std::string text = link.gpu + (server.empty() ? "" : " of " + server) + "\n\n";
    std::vector<std::vector<std::string>> rows = {{"LATENCY (us)", "MEDIAN", "90%", "99%", "MOST"}};
    auto row = [&](const char *what, const Latency &l) {
        rows.push_back({what, text_of(l.p50, ""), text_of(l.p90, ""), text_of(l.p99, ""),
                        text_of(l.most, "")});
    };
    if (link.tcp) row("TCP connect to the server", *link.tcp);
    row("a call that waits (4 bytes to the host)", link.call);
    rows.push_back({"a call that does not", text_of(link.post, "")});
    text += table(rows) + "\n";
    rows = {{"COPIES (GB/s)", "TO THE GPU", "FROM THE GPU"}};
    for (const Bandwidth &b : link.bandwidth)
        rows.push_back({format_size(b.bytes), text_of(b.to_gpu, ""), text_of(b.from_gpu, "")});
    text += table(rows) + "\n";
    rows = {{"A PROGRAM THAT DOES THIS", "TAKES SO MUCH LONGER THAN ON A GPU OF ITS OWN MACHINE"}};
    for (const Profile &profile : kProfiles)
        rows.push_back({profile.what, text_of(slow_down(profile, link), "times")});
    text += table(rows) + "\n" + verdict(link) + "\n";
    // What was measured are random bytes, which go as they are.
    if (packing_pays(link))
        text += "Copies of bytes that shrink are faster: packed, unless compression in rgpu.conf "
                "is off, or the connection encrypted.\n";
    return text;
}

class Bench : public Command {
public:
    void options(CLI::App &app) override
    {
        app.add_option("SERVER", server_, "Lease a GPU of this server (name or address) for it");
        app.add_flag("--json", json_, "Print JSON");
        app.footer(kFooter);
    }

    int run(Context &context) override
    {
        const char *lease = getenv("RGPU_LEASE");
        if (lease && !server_.empty())
            return fail(error(ErrorKind::invalid,
                              "this process has GPUs already (RGPU_LEASE); leave the server out"),
                        kUsage);
        if (!lease) return lease_one(context);
        std::string server;
        if (auto grants = read_lease_file(lease)) server = grants->front().server;
        Result<Link> link =
            measure_link(isatty(STDERR_FILENO) ? show_progress : [](const char *) {});
        if (isatty(STDERR_FILENO)) fprintf(stderr, "\r\033[K");
        if (!link) return fail(link.error());
        measure_server(context, server, *link);
        fputs((json_ ? json_of(*link, server) : text_of(*link, server)).c_str(), stdout);
        return fflush(stdout) == 0 ? kOk
                                   : fail(error(ErrorKind::internal, "cannot write to stdout"));
    }

private:
    static void show_progress(const char *what)
    {
        fprintf(stderr, "\r\033[Kmeasuring %s ...", what);
    }

    // A server that this host's rgpu.conf does not name is measured without it.
    static void measure_server(Context &context, const std::string &name, Link &link)
    {
        Result<const Config *> config = context.config();
        if (!config) return;
        for (const ServerEntry &server : (*config)->servers)
            if (server.name == name)
                if (Result<Latency> tcp =
                        measure_tcp(server.address, (*config)->client.server_timeout);
                    tcp)
                    link.tcp = *tcp;
    }

    // Under rgpu run, this command again.
    int lease_one(const Context &context)
    {
        char self[4096];
        ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
        if (n < 0) return fail(error(ErrorKind::internal, "/proc/self/exe: %s", strerror(errno)));
        self[n] = 0;
        std::vector<std::string> words = {"rgpu"};
        auto add = [&](std::initializer_list<std::string> more) {
            words.insert(words.end(), more);
        };
        if (!context.config_option.empty()) add({"--config", context.config_option});
        add({"run", "-n", "1"});
        if (!server_.empty()) add({"--server", server_});
        add({"--", self});
        if (!context.config_option.empty()) add({"--config", context.config_option});
        add({"bench"});
        if (json_) add({"--json"});
        std::vector<char *> arguments;
        for (std::string &word : words) arguments.push_back(word.data());
        arguments.push_back(nullptr);
        execv(self, arguments.data());
        return fail(error(ErrorKind::internal, "cannot run %s: %s", self, strerror(errno)),
                    kOwnFailure);
    }

    std::string server_;
    bool json_ = false;
};

const Registered<Bench> bench{
    "", "bench", "Measure the way to a GPU: latency, bandwidth, and which programs it slows down"};

}  // namespace
}  // namespace rgpu::cli
