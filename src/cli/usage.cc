// SPDX-License-Identifier: Apache-2.0
// rgpu usage: what users and accounts used of the pool's GPUs, from Slurm's accounting.
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/parts/command.h"
#include "cli/parts/pool_view.h"
#include "cli/parts/table.h"
#include "cli/slurm/tool.h"
#include "slurm/jobs/usage.h"
#include "util/format.h"
#include "util/next_token.h"

namespace rgpu::cli {
namespace {

constexpr const char *kCut = "\x1f";  // between sacct's fields: comments may hold anything else

// One run of a job: a requeued one has several.
struct Run {
    std::string job, user, account, tres, comment;
    double elapsed = 0;
};

std::string take(std::string_view &rest) { return std::string(next_token(rest, kCut)); }

std::vector<Run> parse_runs(std::string_view printed)
{
    std::vector<Run> runs;
    while (!printed.empty()) {
        std::string_view line = printed.substr(0, printed.find('\n'));
        printed.remove_prefix(std::min(line.size() + 1, printed.size()));
        if (line.find(kCut) == line.npos) {  // a comment of several lines
            if (!runs.empty()) runs.back().comment += "\n" + std::string(line);
            continue;
        }
        Run run;
        run.job = take(line);
        run.user = take(line);
        run.account = take(line);
        run.elapsed = strtod(take(line).c_str(), nullptr);
        run.tres = take(line);
        run.comment = line;
        runs.push_back(std::move(run));
    }
    return runs;
}

// How many GPUs, by Slurm's own count: parts of them are only among the licences.
double gpus_of(std::string_view tres)
{
    for (auto [name, each] : {std::pair{"license/rgpu=", 0.01}, std::pair{"gres/rgpu=", 1.0}}) {
        size_t at = tres.find(name);
        double count = 0;
        if (at == tres.npos) continue;
        std::string_view value = tres.substr(at + std::string_view(name).size());
        std::from_chars(value.data(), value.data() + value.size(), count);
        return count * each;
    }
    return 0;
}

struct Row {
    std::string user, account, job;
    slurm::TypeUsage used;
    size_t runs = 0, unreported = 0;
};

using Rows = std::map<std::tuple<std::string, std::string, std::string, std::string>, Row>;

void count(Rows &rows, const Run &run, bool by_job)
{
    std::vector<slurm::TypeUsage> types;
    auto told = slurm::from_comment(run.comment);
    if (told) types = std::move(told->gpus);
    // It runs, or its end was not told: what Slurm knows is how long it held how many.
    bool unreported = !told || (types.empty() && !told->silent.empty());
    if (double gpus = unreported ? gpus_of(run.tres) : 0; gpus > 0) {
        types.emplace_back().name = "-";
        types.back().gpu_seconds = gpus * run.elapsed;
    }
    for (const slurm::TypeUsage &type : types) {
        Row &row = rows[{run.user, run.account, by_job ? run.job : "", type.name}];
        row.user = run.user;
        row.account = run.account;
        row.job = by_job ? run.job : "";
        row.used.name = type.name;
        add(row.used, type);
        ++row.runs;
        row.unreported += unreported || (told && !told->silent.empty());
    }
}

// By a part of the GPU's name in small letters; "" is of all that no other names.
using Prices = std::map<std::string, double>;

std::string small_letters(std::string text)
{
    for (char &c : text)
        c = c == '_' ? ' ' : static_cast<char>(tolower(static_cast<unsigned char>(c)));
    return text;
}

Result<Prices> parse_prices(const std::vector<std::string> &given)
{
    Prices prices;
    for (const std::string &one : given) {
        const size_t equals = one.rfind('=');
        const std::string name = equals == one.npos ? "" : small_letters(one.substr(0, equals));
        const std::string number = equals == one.npos ? one : one.substr(equals + 1);
        double price = -1;
        const auto [end, bad] =
            std::from_chars(number.data(), number.data() + number.size(), price);
        if (bad != std::errc() || end != number.data() + number.size() || !(price >= 0) ||
            !std::isfinite(price) || (equals != one.npos && name.empty()))
            return error(ErrorKind::invalid,
                         "--price %s: an hour's price is wanted, like 2.50, or h100=2.50 for the "
                         "GPUs with h100 in their name",
                         one.c_str());
        if (!prices.emplace(name, price).second)
            return error(ErrorKind::invalid, "--price: %s has two prices",
                         name.empty() ? "every GPU" : name.c_str());
    }
    return prices;
}

// The longest name that fits says most. Nothing where no price is said for it.
std::optional<double> price_of(const Prices &prices, const std::string &gpu)
{
    const std::pair<const std::string, double> *best = nullptr;
    for (const auto &entry : prices)
        if (small_letters(gpu).find(entry.first) != gpu.npos &&
            (!best || entry.first.size() > best->first.size()))
            best = &entry;
    return best ? std::optional(best->second) : std::nullopt;
}

// Quoted where it must be (RFC 4180). A spreadsheet takes what begins so for a formula.
std::string csv_cell(std::string text)
{
    if (!text.empty() && std::string_view("=+-@").find(text[0]) != std::string_view::npos)
        text = "'" + text;
    if (text.find_first_of(",\"\r\n") == text.npos) return text;
    std::string out = "\"";
    for (char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
    return out + "\"";
}

class Usage : public Command {
public:
    void options(CLI::App &app) override
    {
        app.add_option("-S,--starttime", start_,
                       "Jobs that ran after this time, as sacct(1) takes it (now-7days)")
            ->type_name("TIME");
        app.add_option("-E,--endtime", end_, "... and before this (now)")->type_name("TIME");
        app.add_option("-A,--account", account_, "Only of these accounts, with commas")
            ->type_name("ACCOUNTS");
        app.add_option("-u,--user", user_, "Only of these users, with commas")->type_name("USERS");
        app.add_flag("--jobs", jobs_, "A line for each job");
        auto *json = app.add_flag("--json", json_, "Print JSON");
        app.add_flag("--csv", csv_, "Print CSV, for a spreadsheet: seconds, bytes, a heading")
            ->excludes(json);
        app.add_option("--price", prices_,
                       "What an hour of GPU time costs, like 2.50, or of one type only, like "
                       "h100=2.50; several with commas, or given several times")
            ->delimiter(',')
            ->allow_extra_args(false)
            ->type_name("PRICE");
        app.footer("It asks sacct: Slurm must have a slurmdbd (doc/admin.md). Columns are "
                   "explained in rgpu(1).\n"
                   "\n"
                   "Exit status: 0 done, also where nothing was used; 1 Slurm's accounting could "
                   "not be asked.");
    }

    int run(Context &) override
    {
        Result<Prices> prices = parse_prices(prices_);
        if (!prices) return fail(prices.error(), kUsage);
        prices_of_ = std::move(*prices);
        std::vector<std::string> command = {"sacct",
                                            "-a",
                                            "-D",
                                            "-X",
                                            "-n",
                                            "-P",
                                            std::string("--delimiter=") + kCut,
                                            "-S",
                                            start_,
                                            "-o",
                                            "JobID,User,Account,ElapsedRaw,AllocTRES,AdminComment"};
        for (auto [option, value] :
             {std::pair{"-E", &end_}, std::pair{"-A", &account_}, std::pair{"-u", &user_}})
            if (!value->empty()) {
                command.emplace_back(option);
                command.push_back(*value);
            }
        Result<std::string> printed = run_tool(command);
        if (!printed) return fail(printed.error());
        Rows rows;
        for (const Run &run : parse_runs(*printed)) count(rows, run, jobs_);
        std::vector<Row> sorted;
        for (auto &[key, row] : rows) sorted.push_back(std::move(row));
        std::stable_sort(sorted.begin(), sorted.end(), [](const Row &a, const Row &b) {
            return a.used.gpu_seconds > b.used.gpu_seconds;
        });
        return print(json_ ? as_json(sorted) : csv_ ? as_csv(sorted) : as_table(sorted));
    }

private:
    std::optional<double> cost_of(const Row &row) const
    {
        const auto price = price_of(prices_of_, row.used.name);
        return price ? std::optional(*price * row.used.gpu_seconds / 3600) : std::nullopt;
    }

    static std::string money(double amount)
    {
        char text[48];
        snprintf(text, sizeof text, "%.2f", amount);
        return text;
    }

    std::vector<std::string> cells(const Row &row, bool with_energy) const
    {
        const slurm::TypeUsage &u = row.used;
        char busy[16];
        snprintf(busy, sizeof busy, "%.0f%%",
                 u.gpu_seconds > 0 ? 100 * u.busy_seconds / u.gpu_seconds : 0.0);
        const bool told = row.unreported < row.runs;
        auto known = [&](std::string text) { return told ? std::move(text) : std::string("-"); };
        std::vector<std::string> out = {row.user,
                                        row.account,
                                        u.name,
                                        jobs_ ? row.job : std::to_string(row.runs),
                                        clock_of(u.gpu_seconds),
                                        known(busy),
                                        known(human_size(u.memory_peak)),
                                        known(human_size(u.bytes_in)),
                                        known(human_size(u.bytes_out)),
                                        known(clock_of(u.blocked_seconds)),
                                        known(clock_of(u.throttled_seconds))};
        if (with_energy) out.push_back(u.joules ? energy_text(*u.joules) : "-");
        if (!prices_of_.empty()) {
            const auto cost = cost_of(row);
            out.push_back(cost ? money(*cost) : "-");
        }
        return out;
    }

    // With a column for energy where any of it is known: without NVML there is none.
    std::string as_table(const std::vector<Row> &rows) const
    {
        const bool energy = std::any_of(rows.begin(), rows.end(),
                                        [](const Row &row) { return row.used.joules.has_value(); });
        std::vector<std::vector<std::string>> all = {
            {"USER", "ACCOUNT", "GPU", jobs_ ? "JOB" : "RUNS", "GPU TIME", "BUSY", "MEMORY", "IN",
             "OUT", "BLOCKED", "THROTTLED"}};
        if (energy) all.front().emplace_back("ENERGY");
        if (!prices_of_.empty()) all.front().emplace_back("COST");
        double seconds = 0, cost = 0;
        bool all_priced = true;
        size_t unreported = 0;
        for (const Row &row : rows) {
            all.push_back(cells(row, energy));
            seconds += row.used.gpu_seconds;
            cost += cost_of(row).value_or(0);
            all_priced &= cost_of(row).has_value();
            unreported += row.unreported;
        }
        std::string text = table(all) + clock_of(seconds) + " of GPU time in all";
        if (!prices_of_.empty())
            text += ", which costs " + money(cost) +
                    (all_priced ? "" : " without those that have no price");
        if (unreported)
            text += "; of " + counted(unreported, "run") +
                    " not all is known (it runs, or a server was away)";
        return text + "\n";
    }

    std::string as_csv(const std::vector<Row> &rows) const
    {
        std::string text = std::string("user,account,gpu,") + (jobs_ ? "job,runs" : "runs") +
                           ",gpu_seconds,busy_seconds,blocked_seconds,throttled_seconds,"
                           "memory_peak,launches,bytes_in,bytes_out,energy_joules,unreported" +
                           (prices_of_.empty() ? "" : ",cost") + "\n";
        for (const Row &row : rows) {
            const slurm::TypeUsage &u = row.used;
            char numbers[512];
            snprintf(numbers, sizeof numbers, "%zu,%.3f,%.3f,%.3f,%.3f,%llu,%llu,%llu,%llu",
                     row.runs, u.gpu_seconds, u.busy_seconds, u.blocked_seconds,
                     u.throttled_seconds, static_cast<unsigned long long>(u.memory_peak),
                     static_cast<unsigned long long>(u.launches),
                     static_cast<unsigned long long>(u.bytes_in),
                     static_cast<unsigned long long>(u.bytes_out));
            text += csv_cell(row.user) + "," + csv_cell(row.account) + "," + csv_cell(u.name) +
                    "," + (jobs_ ? csv_cell(row.job) + "," : "") + numbers;
            // Empty where nobody knows it.
            snprintf(numbers, sizeof numbers, ",%.3f", u.joules.value_or(0));
            text += (u.joules ? std::string(numbers) : ",") + "," + std::to_string(row.unreported);
            if (!prices_of_.empty()) {
                const auto cost = cost_of(row);
                text += "," + (cost ? money(*cost) : std::string());
            }
            text += "\n";
        }
        return text;
    }

    std::string as_json(const std::vector<Row> &rows) const
    {
        // Sums of what is told in thousandths: 17.278, not 17.278000000000002.
        auto thousandths = [](double seconds) { return std::round(seconds * 1000) / 1000; };
        nlohmann::json all = nlohmann::json::array();
        for (const Row &row : rows) {
            all.push_back({{"user", row.user},
                           {"account", row.account},
                           {"gpu", row.used.name},
                           {"runs", row.runs},
                           {"unreported", row.unreported},
                           {"gpu_seconds", thousandths(row.used.gpu_seconds)},
                           {"busy_seconds", thousandths(row.used.busy_seconds)},
                           {"blocked_seconds", thousandths(row.used.blocked_seconds)},
                           {"throttled_seconds", thousandths(row.used.throttled_seconds)},
                           {"memory_peak", row.used.memory_peak},
                           {"launches", row.used.launches},
                           {"bytes_in", row.used.bytes_in},
                           {"bytes_out", row.used.bytes_out}});
            if (!row.job.empty()) all.back()["job"] = row.job;
            if (row.used.joules) all.back()["energy_joules"] = thousandths(*row.used.joules);
            if (const auto cost = cost_of(row)) all.back()["cost"] = std::round(*cost * 100) / 100;
        }
        return nlohmann::json{{"usage", std::move(all)}}.dump(
                   2, ' ', false, nlohmann::json::error_handler_t::replace) +
               "\n";
    }

    std::string start_ = "now-7days", end_, account_, user_;
    std::vector<std::string> prices_;
    Prices prices_of_;
    bool jobs_ = false, json_ = false, csv_ = false;
};

const Registered<Usage> usage{"", "usage",
                              "Report what users and accounts used, from Slurm's accounting"};

}  // namespace
}  // namespace rgpu::cli
