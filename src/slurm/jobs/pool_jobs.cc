// SPDX-License-Identifier: Apache-2.0
#include "slurm/jobs/pool_jobs.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <ctime>

#include "slurm/jobs/record.h"
#include "slurm/terms/request.h"
#include "util/next_token.h"

namespace rgpu::slurm {
namespace {

// "2026-11-25T01:02:03", in the clock of this host; 0 for "N/A", "NONE" and the like.
int64_t parse_time(std::string_view text)
{
    tm parts{};
    const char *end = strptime(std::string(text).c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
    parts.tm_isdst = -1;
    return end && !*end ? mktime(&parts) : 0;
}

}  // namespace

std::string PoolJob::prolog_note() const { return note_of(comment); }

std::string PoolJob::moved_from() const
{
    const std::string home = qos_mark(comment).home;
    return home == qos ? "" : home;
}

unsigned PoolJob::share() const
{
    const unsigned long each = static_cast<unsigned long>(gpus) * nodes;
    return each && licences.sum && licences.sum < each * 100
               ? static_cast<unsigned>(licences.sum / each)
               : 100;
}

std::vector<PoolJob> parse_pool_jobs(std::string_view printed)
{
    std::vector<PoolJob> jobs;
    while (!printed.empty()) {
        std::string_view one = next_token(printed, "\x1f");
        while (one.starts_with('\n')) one.remove_prefix(1);
        if (std::count(one.begin(), one.end(), '|') < 13) continue;
        PoolJob &job = jobs.emplace_back();
        job.id = next_token(one, "|"), job.user = next_token(one, "|");
        job.state = next_token(one, "|"), job.reason = next_token(one, "|");
        job.submitted = parse_time(next_token(one, "|"));
        job.start = parse_time(next_token(one, "|"));
        job.end = parse_time(next_token(one, "|"));
        job.nodes = static_cast<unsigned>(
            std::max(1, atoi(std::string(next_token(one, "|")).c_str())));  // "2-4": at least 2
        job.qos = next_token(one, "|");
        const bool batch = next_token(one, "|") != "0", requeue = next_token(one, "|") == "1";
        job.requeues = batch && requeue;
        job.licences = own_licences(next_token(one, "|"));
        if (auto gpus = gpus_in_tres(next_token(one, "|")))
            job.gpus = gpus->count, job.type = gpus->type;
        job.comment = one;
    }
    return jobs;
}

Obstacle obstacle_of(std::string_view reason)
{
    struct Known {
        std::string_view begins;
        Obstacle obstacle;
    };
    static constexpr std::array known = {
        Known{"Licenses", Obstacle::gpus},
        Known{"Resources", Obstacle::nodes},
        Known{"Nodes_required", Obstacle::nodes},
        Known{"ReqNodeNotAvail", Obstacle::nodes},
        Known{"BadConstraints", Obstacle::nodes},
        Known{"Priority", Obstacle::priority},
        Known{"Assoc", Obstacle::limit},
        Known{"QOS", Obstacle::limit},
        Known{"MaxCpuPerAccount", Obstacle::limit},
        Known{"Partition", Obstacle::limit},
        Known{"JobArrayTaskLimit", Obstacle::limit},
        Known{"JobHeld", Obstacle::held},
        Known{"job_requeued_in_held_state", Obstacle::held},
        Known{"launch_failed_requeued_held", Obstacle::held},
        Known{"BeginTime", Obstacle::time},
        Known{"Dependency", Obstacle::time},
        Known{"Reservation", Obstacle::time},
    };
    for (const auto &[begins, obstacle] : known)
        if (reason.starts_with(begins)) return obstacle;
    return Obstacle::other;
}

std::string explain(Obstacle obstacle, std::string_view reason)
{
    const std::string word(reason);
    switch (obstacle) {
    case Obstacle::gpus: return "not enough GPUs of the pool are free";
    case Obstacle::nodes:
        return "the nodes have no room for it (" + word +
               "): processors, memory or nodes are missing, not GPUs of the pool; see sinfo";
    case Obstacle::priority:
        return "jobs of a higher priority go first; see squeue -S -p and sprio";
    case Obstacle::limit:
        return "a limit is reached (" + word +
               ") of its user, account, QOS or partition; see sacctmgr show assoc, sacctmgr show "
               "qos and scontrol show partition, or ask an administrator";
    case Obstacle::held: return "it is held (" + word + "); see scontrol release";
    case Obstacle::time:
        return "it is not its time yet (" + word +
               "): a begin time, a dependency or a reservation; see scontrol show job";
    case Obstacle::other: break;
    }
    return word.empty() || word == "None" ? "Slurm has not looked at it yet"
                                          : "Slurm says " + word + "; see squeue(1)";
}

std::string about_quota(const PoolJob &job, bool over_quota)
{
    if (const std::string from = job.moved_from(); !from.empty())
        return std::string(job.waits() ? "it may use" : "it uses") +
               " what is over of the pool (QOS " + job.qos + ", in place of its own, " + from +
               "): a job within its quota that wants these GPUs has it requeued";
    if (!job.waits() || job.reason != "QOSGrpLicense") return "";
    std::string all = "the jobs of its QOS, " + job.qos +
                      ", have all GPUs that they may have together";
    if (!over_quota) return all;
    return all + (job.requeues
                      ? "; it starts beside them as soon as enough GPUs are idle, and is requeued "
                        "when a job within its quota wants these"
                      : "; idle ones are for batch jobs that Slurm may requeue (sbatch, without "
                        "--no-requeue)");
}

const PoolJob *enough_after(const std::vector<PoolJob> &holders, unsigned long missing)
{
    std::vector<const PoolJob *> by_end;
    for (const PoolJob &job : holders)
        if (job.licences.sum && job.end) by_end.push_back(&job);
    std::stable_sort(by_end.begin(), by_end.end(),
                     [](const auto *a, const auto *b) { return a->end < b->end; });
    unsigned long freed = 0;
    for (const PoolJob *job : by_end)
        if ((freed += job->licences.sum) >= missing) return job;
    return nullptr;
}

}  // namespace rgpu::slurm
