#include "cli/slurm_keep.h"

#include <cstdlib>
#include <ctime>
#include <thread>

#include "cli/slurm_conf.h"
#include "cli/slurm_record.h"
#include "cli/slurm_tool.h"
#include "pool/acquire.h"

namespace rgpu::cli {
namespace {

// slurmctld tells slurmdbd of a job when it comes to it: pauses of 0.1 to some seconds lie between the tries.
constexpr int kTries = 7;

std::string comment_of(const SlurmJob &job, const std::string &note)
{
    Result<JobRecord> record = look_at(job.name);
    std::string comment = record ? record->comment : "";
    return note.empty() ? comment : with_note(comment, note, avoided(comment, time(nullptr)));
}

bool no_accounting(const Error &error)
{
    return error.kind == ErrorKind::unsupported || error.text.find("accounting_storage plugin") != std::string::npos;
}

}  // namespace

bool keeps_records()
{
    const char *path = getenv("SLURM_CONF");
    auto conf = path ? read_conf(path) : Result<Conf>(error(ErrorKind::unavailable, "SLURM_CONF is not set"));
    return !conf || !conf->files[0].exists || !conf->value("AccountingStorageType").value_or("none").ends_with("none");
}

Result<void> keep_in_record(const SlurmJob &job, const JobUsage &used, const std::string &note)
{
    if (used.empty())
        return {};
    const std::string comment = to_comment(used, comment_of(job, note));
    for (int n = 0;; ++n) {
        auto done = run_tool({"sacctmgr", "-i", "modify", "job", "where", "jobid=" + job.id, "set", "AdminComment=" + comment});
        if (done || no_accounting(done.error()))
            return {};
        if (n + 1 == kTries)
            return std::move(done).error().in("what it used is not in Slurm's accounting (" + comment + ")");
        std::this_thread::sleep_for(pool::pause(n, 0.5));
    }
}

}  // namespace rgpu::cli
