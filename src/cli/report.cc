// SPDX-License-Identifier: Apache-2.0
// rgpu report: how well a job used its GPUs, and what would do better.
#include <algorithm>
#include <cctype>

#include <CLI/CLI.hpp>

#include "cli/parts/command.h"
#include "cli/parts/report.h"
#include "cli/slurm/tool.h"
#include "slurm/jobs/usage.h"

namespace rgpu::cli {
namespace {

bool is_number(const std::string &text)
{
    return !text.empty() &&
           std::all_of(text.begin(), text.end(), [](unsigned char c) { return isdigit(c) != 0; });
}

std::string first_word(const std::string &printed)
{
    const size_t begin = printed.find_first_not_of(" \n");
    if (begin == printed.npos) return {};
    return printed.substr(begin, printed.find_first_of(" \n|", begin) - begin);
}

// Leases have the number that each task of an array, and each part of a heterogeneous job, has by
// itself: what Slurm prints is "14_3", "22+1".
Result<std::string> number_of(const std::string &job)
{
    if (is_number(job)) return job;
    if (job.find_first_not_of("0123456789_+") != job.npos)
        return error(ErrorKind::invalid,
                     "%s is no job: a number is wanted, as squeue shows it: 14, 14_3 or 22+1",
                     job.c_str());
    if (auto shown = run_tool({"squeue", "-h", "-a", "-t", "all", "-j", job, "-O", "JobID:|"});
        shown && is_number(first_word(*shown)))
        return first_word(*shown);
    auto shown = run_tool({"sacct", "-n", "-X", "-P", "-j", job, "-o", "JobIDRaw"});
    if (shown && is_number(first_word(*shown))) return first_word(*shown);
    return error(ErrorKind::invalid, "job %s: neither squeue nor sacct knows its number",
                 job.c_str());
}

// What the epilog wrote into Slurm's accounting: for jobs that no server remembers.
std::optional<Report> from_accounting(const std::string &job)
{
    auto printed = run_tool({"sacct", "-n", "-X", "-P", "-j", job, "-o", "User,AdminComment"});
    if (!printed) return {};
    const size_t cut = printed->find('|');
    auto used = cut == printed->npos ? std::nullopt : slurm::from_comment(printed->substr(cut));
    if (!used || used->empty()) return {};
    Report report;
    report.job = job;
    report.user = printed->substr(0, cut);
    report.servers = used->servers;
    report.silent = used->silent;
    for (const slurm::TypeUsage &type : used->gpus) {
        report.names.push_back(type.name);
        report.gpu_s += type.gpu_seconds;
        report.busy_s += type.busy_seconds;
        report.blocked_s += type.blocked_seconds;
        report.throttled_s += type.throttled_seconds;
        report.launches += type.launches;
        report.bytes_in += type.bytes_in;
        report.bytes_out += type.bytes_out;
        report.memory_peak = std::max(report.memory_peak, type.memory_peak);
        if (type.joules) report.joules = report.joules.value_or(0) + *type.joules;
    }
    report.lease_s = report.held_s = report.gpu_s;
    return report;
}

class ReportCommand : public Command {
public:
    void options(CLI::App &app) override
    {
        add_job(app, job_);
        app.add_flag("--json", json_, "Print JSON");
        app.footer("Efficiency of a job, as seff(1) tells it of processors: GPU time held and "
                   "used, time blocked, memory, and advice. It may run still. The servers remember "
                   "jobs for a month; of older ones Slurm's accounting is asked.\n"
                   "\n"
                   "Exit status: 0 done; 1 nobody knows the job, or it had no GPUs of the pool; "
                   "123 no server answered.");
    }

    int run(Context &context) override
    {
        Result<std::string> number = number_of(job_);
        if (!number) return fail(number.error());
        Result<pool::Client> client = context.pool();
        if (!client) return fail(client.error());
        std::vector<ReportedLease> leases;
        std::vector<std::string> silent;
        size_t asked = 0;
        for (auto &told : client->usages(*number)) {
            ++asked;
            if (!told.answer) {
                silent.push_back(told.server);
                (void)fail(told.answer.error());
                continue;
            }
            for (pool::LeaseUsage &usage : told.answer->leases)
                leases.push_back({told.server, std::move(usage)});
        }
        std::optional<Report> report;
        if (!leases.empty()) {
            report = report_of(leases);
            report->silent = silent;
        } else {
            report = from_accounting(*number);
        }
        if (!report && silent.size() == asked) return kNoServer;
        if (!report)
            return fail(error(ErrorKind::invalid,
                              "job %s: no server has a lease of it in the last month that you may "
                              "see, and neither has Slurm's accounting; did it ask for GPUs of the "
                              "pool (--gres=rgpu:N)?",
                              job_.c_str()));
        return print(json_ ? report_json(*report) : report_text(*report));
    }

private:
    std::string job_;
    bool json_ = false;
};

const Registered<ReportCommand> report{
    "", "report", "Tell how well a Slurm job used its GPUs (efficiency), with advice"};

}  // namespace
}  // namespace rgpu::cli
