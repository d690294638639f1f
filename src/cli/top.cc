// SPDX-License-Identifier: Apache-2.0
// rgpu top: who shares the GPUs, and what each was given; again and again on a terminal.
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <optional>
#include <set>
#include <thread>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/parts/command.h"
#include "cli/parts/pool_view.h"
#include "cli/parts/table.h"
#include "pool/messages/inventory_json.h"

namespace rgpu::cli {
namespace {

using Sharings = std::vector<pool::Told<pool::Sharing>>;

std::string percent(double part)
{
    char text[16];
    snprintf(text, sizeof text, "%.1f%%", 100 * part);
    return text;
}

std::string seconds(double value)
{
    char text[32];
    snprintf(text, sizeof text, value < 0.1 ? "%.1fms" : "%.1fs",
             value < 0.1 ? 1000 * value : value);
    return text;
}

std::string rate(double per_second)
{
    char text[32];
    snprintf(text, sizeof text, per_second < 100 ? "%.1f" : "%.0f", per_second);
    return text;
}

std::string who(const pool::TenantShare &t)
{
    return t.lease.empty() ? "(another's)" : who_of(t.owner);
}

std::string state_of(const pool::TenantShare &t)
{
    std::string state = t.running ? "runs" : t.waiting ? "waits" : t.workers ? "idle" : "gone";
    // Long enough that others notice.
    if (t.running_s > 1) state += ", kernel " + seconds(t.running_s);
    return state;
}

// Who and what they do come first: where a line is cut, these are still there.
const std::vector<std::string> kColumns = {"GPU",      "WHO",     "STATE",   "SHARE", "DUE",
                                           "1S",       "10S",     "1MIN",    "OWED",  "MEMORY",
                                           "LAUNCH/S", "BYTES/S", "LONGEST", "LEASE"};

std::vector<std::string> row_of(const std::string &gpu, const pool::TenantShare &t)
{
    std::string wanted = share_text(t.least, t.most);
    if (t.weight != 1) {
        char weight[32];
        snprintf(weight, sizeof weight, " x%g", t.weight);
        wanted += weight;
    }
    std::string memory = human_size(t.memory_used);
    if (t.memory) memory += " of " + human_size(t.memory);
    return {gpu,
            who(t),
            state_of(t),
            wanted,
            percent(t.due),
            percent(t.given_1s),
            percent(t.given_10s),
            percent(t.given_1min),
            seconds(t.owed_s),
            memory,
            rate(t.launches_per_s),
            human_size(static_cast<uint64_t>(t.bytes_per_s)),
            seconds(t.longest_s),
            t.lease.empty() ? "-" : t.lease.substr(0, 8)};
}

// A lease on the GPU that has launched nothing there.
std::vector<std::string> row_of(const std::string &gpu, const pool::Lease &lease,
                                const pool::Portion &part)
{
    std::vector<std::string> row(kColumns.size(), "-");
    row[0] = gpu;
    row[1] = who_of(lease.owner);
    row[2] = lease.workers ? "no launch yet" : "no program yet";
    row[3] = share_text(part.share, part.most);
    row.back() = lease.id.substr(0, 8);
    return row;
}

std::vector<std::string> row_of(const std::string &gpu, const pool::GpuState &state)
{
    if (!state.drained.empty()) return {gpu, "-", "drained: " + state.drained};
    return state.free_share < kWholeGpu ? std::vector<std::string>{gpu, "(another's)", "-"}
                                        : std::vector<std::string>{gpu, "-", "free"};
}

void add_rows(std::vector<std::vector<std::string>> &rows, const pool::Inventory &inventory,
              const pool::Sharing *sharing, const std::string &server)
{
    for (const pool::GpuState &gpu : inventory.gpus) {
        const std::string name = server + " " + std::to_string(gpu.index);
        std::set<std::string> shown;
        const size_t before = rows.size();
        for (size_t i = 0; sharing && i < sharing->gpus.size(); ++i)
            if (sharing->gpus[i].uuid == gpu.uuid)
                for (const pool::TenantShare &tenant : sharing->gpus[i].tenants) {
                    rows.push_back(row_of(name, tenant));
                    shown.insert(tenant.lease);
                }
        for (const pool::Lease &lease : inventory.leases)
            for (const pool::Portion &part : lease.gpus)
                if (part.uuid == gpu.uuid && !shown.count(lease.id))
                    rows.push_back(row_of(name, lease, part));
        if (rows.size() == before) rows.push_back(row_of(name, gpu));
    }
}

std::string top_table(const Sharings &sharings, const pool::Inventories &inventories)
{
    std::vector<std::vector<std::string>> rows = {kColumns};
    std::string silent;
    for (const auto &told : inventories) {
        if (!told.answer) {
            silent += "no answer from " + told.answer.error().text + "\n";
            continue;
        }
        const pool::Sharing *sharing = nullptr;
        for (const auto &one : sharings)
            if (one.server == told.server && one.answer) sharing = &*one.answer;
        add_rows(rows, *told.answer, sharing, told.server);
    }
    return table(rows) + silent;
}

// One line a server, as it said it.
std::string top_json(const Sharings &sharings)
{
    nlohmann::json servers = nlohmann::json::array(), unreachable = nlohmann::json::array();
    for (const auto &told : sharings) {
        if (told.answer) {
            servers.push_back(nlohmann::json::parse(pool::encode(*told.answer)));
            servers.back()["name"] = told.server;
        } else {
            unreachable.push_back({{"name", told.server}, {"error", told.answer.error().text}});
        }
    }
    nlohmann::json all = {{"servers", std::move(servers)}, {"unreachable", std::move(unreachable)}};
    return all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

// The terminal while the view is live: keys come one by one and are not shown, and it becomes as it
// was, also when a signal ends the program. One at a time.
class LiveTerminal {
public:
    LiveTerminal()
    {
        if (!isatty(STDIN_FILENO) || tcgetattr(STDIN_FILENO, &before_) != 0) return;
        struct sigaction action = {};
        action.sa_handler = restore_and_end;
        action.sa_flags = SA_RESETHAND;
        for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaction(signal, &action, nullptr);
        termios now = before_;
        now.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
        tcsetattr(STDIN_FILENO, TCSANOW, &now);
        raw_ = true;
    }
    LiveTerminal(const LiveTerminal &) = delete;
    ~LiveTerminal()
    {
        if (raw_) tcsetattr(STDIN_FILENO, TCSANOW, &before_);
    }

    // From its first line; what has no room is cut, and how many lines are missing is said.
    void show(const std::string &text) const
    {
        winsize size{};
        if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row < 2)
            size.ws_col = size.ws_row = UINT16_MAX;
        std::string screen = "\033[H\033[J";
        size_t at = 0;
        for (size_t row = 1; at < text.size(); ++row) {
            const size_t end = std::min(text.find('\n', at), text.size());
            const auto rest = static_cast<size_t>(
                std::count(text.begin() + static_cast<ptrdiff_t>(at), text.end(), '\n'));
            if (row + 1 == size.ws_row && rest > 1) {
                screen += std::to_string(rest) + " lines more\n";
                break;
            }
            screen += fitting(text.substr(at, end - at), size.ws_col) + "\n";
            at = end + 1;
        }
        fputs(screen.c_str(), stdout);
    }

    // Any key ends it. False when the user wants no more.
    bool pause(Milliseconds time) const
    {
        pollfd look{raw_ ? STDIN_FILENO : -1, POLLIN, 0};
        char key = 0;
        return poll(&look, 1, static_cast<int>(time.count())) <= 0 ||
               (read(STDIN_FILENO, &key, 1) == 1 && key != 'q' && key != 'Q');
    }

private:
    static void restore_and_end(int signal)
    {
        tcsetattr(STDIN_FILENO, TCSANOW, &before_);
        raise(signal);
    }

    // So many columns of it, no character in parts.
    static std::string fitting(std::string line, size_t columns)
    {
        size_t seen = 0;
        for (size_t i = 0; i < line.size(); ++i)
            if ((line[i] & 0xc0) != 0x80 && ++seen > columns) {
                line.resize(i);
                break;
            }
        return line;
    }

    static inline termios before_{};
    bool raw_ = false;
};

class Top : public Command {
public:
    void options(CLI::App &app) override
    {
        app.add_flag("--once", once_, "Show it once and end; so it is where stdout is no terminal");
        app.add_flag("--json", json_,
                     "Print JSON, one line each time; once unless --interval is given");
        add_servers(app, servers_);
        app.add_option("-i,--interval", interval_, "Time between two views: 500ms (1s)")
            ->type_name("TIME");
        app.footer("q ends it. Columns are explained in rgpu(1), the numbers in doc/sharing.md.");
    }

    int run(Context &context) override
    {
        Milliseconds interval{1000};
        if (!interval_.empty()) {
            Result<Milliseconds> time = parse_duration(interval_);
            if (!time || *time < Milliseconds(50) || *time > std::chrono::hours(1))
                return fail(time ? error(ErrorKind::invalid, "--interval: from 50ms to 1h")
                                 : std::move(time).error().in("--interval"),
                            kUsage);
            interval = *time;
        }
        Result<pool::Client> client = context.pool(servers_);
        if (!client) return fail(client.error());
        const bool once = once_ || (interval_.empty() && (json_ || !isatty(STDOUT_FILENO)));
        std::optional<LiveTerminal> terminal;
        if (!once && !json_ && isatty(STDOUT_FILENO)) terminal.emplace();
        for (;;) {
            Sharings sharings = client->sharing();
            std::string text = json_ ? top_json(sharings)
                                     : top_table(sharings, client->inventory());
            if (terminal)
                terminal->show(text);
            else
                fputs(text.c_str(), stdout);
            if (fflush(stdout) != 0)
                return fail(error(ErrorKind::internal, "cannot write to stdout"));
            if (once) {
                for (const auto &told : sharings)
                    if (told.answer) return kOk;
                return kNoServer;
            }
            if (!terminal)
                std::this_thread::sleep_for(interval);
            else if (!terminal->pause(interval))
                return kOk;
        }
    }

private:
    bool once_ = false, json_ = false;
    std::vector<std::string> servers_;
    std::string interval_;
};

const Registered<Top> top{"", "top", "Show who shares the GPUs, and what each is given"};

}  // namespace
}  // namespace rgpu::cli
