#include "cli/slurm/lost_server.h"

#include <algorithm>
#include <chrono>
#include <ctime>

#include "cli/slurm/tool.h"

namespace rgpu::cli {
namespace {

std::string what_happened(const std::vector<LostServer> &lost)
{
    std::string out = "lost ";
    for (size_t i = 0; i < lost.size(); ++i) (out += i ? ", " : "") += lost[i].why;
    return out;
}

std::vector<Avoided> now_avoided(const SlurmConfig &slurm, const JobRecord &record,
                                 const std::vector<LostServer> &lost)
{
    int64_t now = time(nullptr),
            until = now + std::chrono::ceil<std::chrono::seconds>(slurm.lost_avoid).count();
    std::vector<Avoided> out = avoided(record.comment, now);
    for (const LostServer &server : lost) {
        if (!server.avoid) continue;
        std::erase_if(out, [&](const Avoided &a) { return a.server == server.name; });
        if (until > now) out.push_back({server.name, until});
    }
    return out;
}

// In words, what scontrol is asked for and what the job is then.
struct Step {
    std::vector<std::string> command;
    std::string done;
};

Step step_of(Fate fate, const std::string &job, bool running)
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

}  // namespace

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

Result<std::string> lose_servers(const SlurmConfig &slurm, const std::string &job,
                                 const JobRecord &record, const std::vector<LostServer> &lost,
                                 bool running)
{
    Fate fate = fate_of(record, slurm.lost_server, running);
    Step step = step_of(fate, job, running);
    std::string note = what_happened(lost) + ": " + step.done;
    std::vector<Avoided> avoid = fate == Fate::requeue || fate == Fate::hold
                                     ? now_avoided(slurm, record, lost)
                                     : std::vector<Avoided>{};
    // One that has ended takes a note only when it is requeued, one that is cancelled only before.
    bool note_first = fate == Fate::end;
    Result<void> noted;
    if (note_first) noted = put_note(job, record.comment, note, avoid);
    if (!step.command.empty())
        if (auto done = run_tool(step.command); !done)
            return std::move(done).error().in(what_happened(lost));
    if (!note_first) noted = put_note(job, record.comment, note, avoid);
    if (!noted && fate != Fate::leave)
        return std::move(noted).error().in(note + "; its AdminComment cannot be set");
    return note;
}

}  // namespace rgpu::cli
