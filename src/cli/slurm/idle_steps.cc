// SPDX-License-Identifier: Apache-2.0
#include "cli/slurm/idle_steps.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>
#include <set>
#include <syslog.h>

#include "cli/slurm/job_record.h"
#include "cli/slurm/tool.h"
#include "slurm/jobs/idle_jobs.h"
#include "slurm/jobs/lost_server.h"

namespace rgpu::cli {
namespace {

void tell(bool quiet, const std::string &text)
{
    openlog("rgpu", LOG_PID, LOG_DAEMON);
    syslog(LOG_WARNING, "%s", text.c_str());
    if (!quiet) puts(text.c_str());
}

std::set<std::string> read_warned(const std::string &path)
{
    std::ifstream file(path);
    return slurm::parse_warned(std::string(std::istreambuf_iterator<char>(file), {}));
}

Result<void> write_warned(const std::string &path, const std::set<std::string> &warned)
{
    std::ofstream file(path + ".new", std::ios::trunc);
    file << slurm::format_warned(warned);
    file.close();
    if (!file || rename((path + ".new").c_str(), path.c_str()) != 0)
        return error(ErrorKind::internal, "writing %s: %s", path.c_str(), strerror(errno));
    return {};
}

bool is_exempt(const PoolConfig &config, const slurm::JobRun &run)
{
    if (config.idle_exempt.empty()) return false;
    auto qos = run_tool({"squeue", "-h", "-a", "-j", run.id, "-o", "%q"});
    // Nothing is done to a job of which it is not known.
    if (!qos) return true;
    const std::string name = qos->substr(0, qos->find_first_of(" \n"));
    return std::find(config.idle_exempt.begin(), config.idle_exempt.end(), name) !=
           config.idle_exempt.end();
}

void say_to(const slurm::JobRun &run, const std::string &text)
{
    (void)run_tool({"scontrol", "notify", run.whole(), "rgpu: " + text}).has_value();
}

// Returns what was done, in words; nothing where the job is another's run by now.
Result<std::string> end_job(const PoolConfig &config, const slurm::IdleJob &job)
{
    auto record = look_at(job.run.whole());
    if (!record) return std::move(record).error();
    if (record->restarts != job.run.restarts ||
        (record->state != "RUNNING" && record->state != "SUSPENDED"))
        return std::string();
    const bool again = config.idle_action == "requeue" && record->batch && record->requeue;
    const slurm::FateStep step =
        slurm::step_of(again ? slurm::Fate::hold : slurm::Fate::end, job.run.whole(), true);
    const std::string note = slurm::idle_note(job, step.done);
    say_to(job.run, note);
    const auto avoid = slurm::avoided(record->comment, time(nullptr));
    // One that is cancelled takes a note only before.
    Result<void> noted;
    if (!again) noted = put_note(job.run.whole(), record->comment, note, avoid);
    if (auto done = run_tool(step.command); !done) return std::move(done).error().in(note);
    if (again) noted = put_note(job.run.whole(), record->comment, note, avoid);
    if (!noted) return std::move(noted).error().in(note + "; its AdminComment cannot be set");
    return note;
}

}  // namespace

Result<IdleSteps> act_on_idle(const PoolConfig &config, const std::string &file,
                              pool::Client &client, const std::vector<slurm::JobRun> &runs,
                              bool quiet)
{
    IdleSteps steps;
    const Milliseconds from = slurm::idle_from(config);
    if (!from.count()) return steps;
    const std::set<std::string> before = read_warned(file);
    std::set<std::string> warned;
    const double least =
        static_cast<double>(
            (config.idle_end.count() ? std::min(from, config.idle_end) : from).count()) /
        1000;
    for (const slurm::IdleJob &job : slurm::idle_jobs(runs, client.usages(""), least)) {
        const std::string key = slurm::run_key(job.run);
        const slurm::IdleFate fate = slurm::idle_fate(config, job.idle_s, before.contains(key));
        if (fate != slurm::IdleFate::leave && is_exempt(config, job.run)) continue;
        warned.insert(key);
        if (fate == slurm::IdleFate::warn) {
            const std::string text = slurm::idle_warning(config, job);
            say_to(job.run, text);
            tell(quiet, text);
            steps.warned.push_back(job.run.name);
        } else if (fate == slurm::IdleFate::end) {
            auto done = end_job(config, job);
            if (done && done->empty()) continue;
            tell(quiet, "job " + job.run.whole() + ": " + (done ? *done : done.error().text));
            if (done) steps.ended.push_back(job.run.name);
        }
    }
    auto written = write_warned(file, warned);
    return written ? Result<IdleSteps>(std::move(steps)) : std::move(written).error();
}

}  // namespace rgpu::cli
