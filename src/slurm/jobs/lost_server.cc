// SPDX-License-Identifier: Apache-2.0
#include "slurm/jobs/lost_server.h"

#include <algorithm>
#include <chrono>

namespace rgpu::slurm {

Fate fate_of(const JobRecord &job, const std::string &lost_server, bool running)
{
    if (lost_server == "fail") return running ? Fate::end : Fate::leave;
    if (!job.batch || !job.requeue) return Fate::leave;
    return lost_server == "hold" ? Fate::hold : Fate::requeue;
}

bool failed_by_itself(const JobRecord &job)
{
    // The second is Slurm's word for a batch script that a signal ended, SIGABRT for one.
    return job.reason == "NonZeroExitCode" || job.reason == "JobLaunchFailure";
}

bool dies_again(const JobRecord &job, const std::vector<LostServer> &lost)
{
    return job.comment.find(kDied) != job.comment.npos &&
           std::any_of(lost.begin(), lost.end(),
                       [](const LostServer &one) { return one.why.starts_with(kDied); });
}

std::string died_before(std::string_view comment)
{
    const size_t at = comment.rfind(kDied);
    if (at == comment.npos) return {};
    const std::string_view rest = comment.substr(at);
    return "; a run before lost " + std::string(rest.substr(0, rest.find(')'))) +
           (rest.find(')') == rest.npos ? "" : ")");
}

std::string what_happened(const std::vector<LostServer> &lost)
{
    std::string out = "lost ";
    for (size_t i = 0; i < lost.size(); ++i) (out += i ? ", " : "") += lost[i].why;
    return out;
}

std::vector<Avoided> avoided_after(const SlurmConfig &slurm, const JobRecord &record,
                                   const std::vector<LostServer> &lost, int64_t now)
{
    const int64_t until = now + std::chrono::ceil<std::chrono::seconds>(slurm.lost_avoid).count();
    std::vector<Avoided> out = avoided(record.comment, now);
    for (const LostServer &server : lost) {
        if (!server.avoid) continue;
        std::erase_if(out, [&](const Avoided &a) { return a.server == server.name; });
        if (until > now) out.push_back({server.name, until});
    }
    return out;
}

FateStep step_of(Fate fate, const std::string &job, bool running)
{
    // A job that has ended well in this moment is not started again.
    auto requeue = [&](const char *how) {
        return running ? std::vector<std::string>{"scontrol", how, "Incomplete", job}
                       : std::vector<std::string>{"scontrol", how, job};
    };
    switch (fate) {
    case Fate::requeue: return {requeue("requeue"), "requeued"};
    case Fate::hold: return {requeue("requeuehold"), "requeued and held"};
    case Fate::end: return {{"scancel", job}, "cancelled"};
    case Fate::leave: break;
    }
    return {{}, running ? kRunsOn : "it has failed"};
}

}  // namespace rgpu::slurm
