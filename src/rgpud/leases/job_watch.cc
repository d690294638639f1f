// SPDX-License-Identifier: Apache-2.0
#include "rgpud/leases/job_watch.h"

#include <unistd.h>

#include <cstdlib>
#include <sstream>

#include "rgpud/host/process.h"
#include "util/log.h"

namespace rgpu::serverd {
namespace {

constexpr Milliseconds kAnswerTime{20'000};
constexpr size_t kMostPrinted = size_t{64} << 20;

// Slurm's names for a job that has ended for good (squeue -t all shows them for some minutes).
bool has_ended(const std::string &state)
{
    static const std::set<std::string> ended = {
        "COMPLETED", "CANCELLED", "FAILED",   "TIMEOUT",       "NODE_FAIL",
        "PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY", "REVOKED"};
    return ended.count(state) != 0;
}

Launch question(const RgpudConfig &config)
{
    Launch launch;
    launch.command = {config.squeue, "--noheader", "--states=all", "--format=%A %T"};
    launch.environment = {{"PATH", "/usr/bin:/bin"}, {"LANG", "C.UTF-8"}};
    if (const char *conf = getenv("SLURM_CONF")) launch.environment["SLURM_CONF"] = conf;
    return launch;
}

}  // namespace

std::set<std::string> JobWatch::alive(const std::string &printed)
{
    std::set<std::string> jobs;
    std::istringstream lines(printed);
    for (std::string job, state; lines >> job >> state;)
        if (!has_ended(state)) jobs.insert(job);
    return jobs;
}

void JobWatch::start()
{
    if (config_.squeue.empty()) return;
    if (access(config_.squeue.c_str(), X_OK) != 0) {
        log_debug(
            "%s is not here: leases of jobs that Slurm has forgotten end only by their epilog",
            config_.squeue.c_str());
        return;
    }
    looking_.start(config_.slurm_check, [this] { look(); });
}

void JobWatch::look()
{
    std::set<std::string> jobs = service_.jobs();
    if (jobs.empty()) {
        service_.jobs_missing({});
        return;
    }
    Result<std::string> printed = output_of(question(config_), kAnswerTime, kMostPrinted);
    if (!printed) {
        log_warning("asking Slurm for its jobs: %s", printed.error().text.c_str());
        missed_.clear();
        return;
    }
    std::set<std::string> there = alive(*printed), missed, missing;
    for (const std::string &job : jobs) {
        if (there.count(job)) continue;
        missing.insert(job);
        if (missed_.count(job))
            service_.job_gone(job);
        else
            missed.insert(job);
    }
    missed_ = std::move(missed);
    service_.jobs_missing(std::move(missing));
}

}  // namespace rgpu::serverd
