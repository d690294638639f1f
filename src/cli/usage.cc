// rgpu usage: what users and accounts used of the pool's GPUs, from Slurm's accounting.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

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

// 3:25:45, as Slurm has hours.
std::string duration(double seconds)
{
    char text[48];
    const long long all = std::llround(seconds);
    snprintf(text, sizeof text, "%lld:%02lld:%02lld", all / 3600, all / 60 % 60, all % 60);
    return text;
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
        app.add_flag("--json", json_, "Print JSON");
        app.footer("It asks sacct: Slurm must have a slurmdbd (doc/admin.md). Columns are "
                   "explained in rgpu(1).\n"
                   "\n"
                   "Exit status: 0 done, also where nothing was used; 1 Slurm's accounting could "
                   "not be asked.");
    }

    int run(Context &) override
    {
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
        fputs((json_ ? as_json(sorted) : as_table(sorted)).c_str(), stdout);
        return kOk;
    }

private:
    std::vector<std::string> cells(const Row &row) const
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
                                        duration(u.gpu_seconds),
                                        known(busy),
                                        known(human_size(u.memory_peak)),
                                        known(human_size(u.bytes_in)),
                                        known(human_size(u.bytes_out)),
                                        known(duration(u.blocked_seconds)),
                                        known(duration(u.throttled_seconds))};
        return out;
    }

    std::string as_table(const std::vector<Row> &rows) const
    {
        std::vector<std::vector<std::string>> all = {
            {"USER", "ACCOUNT", "GPU", jobs_ ? "JOB" : "RUNS", "GPU TIME", "BUSY", "MEMORY", "IN",
             "OUT", "BLOCKED", "THROTTLED"}};
        double seconds = 0;
        size_t unreported = 0;
        for (const Row &row : rows) {
            all.push_back(cells(row));
            seconds += row.used.gpu_seconds;
            unreported += row.unreported;
        }
        std::string text = table(all) + duration(seconds) + " of GPU time in all";
        if (unreported)
            text += "; of " + counted(unreported, "run") +
                    " not all is known (it runs, or a server was away)";
        return text + "\n";
    }

    static std::string as_json(const std::vector<Row> &rows)
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
        }
        return nlohmann::json{{"usage", std::move(all)}}.dump(
                   2, ' ', false, nlohmann::json::error_handler_t::replace) +
               "\n";
    }

    std::string start_ = "now-7days", end_, account_, user_;
    bool jobs_ = false, json_ = false;
};

const Registered<Usage> usage{"", "usage",
                              "Report what users and accounts used, from Slurm's accounting"};

}  // namespace
}  // namespace rgpu::cli
