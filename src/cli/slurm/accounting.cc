// SPDX-License-Identifier: Apache-2.0
#include "cli/slurm/accounting.h"

#include <cstdlib>
#include <ctime>
#include <thread>

#include "cli/slurm/behind.h"
#include "cli/slurm/job_record.h"
#include "cli/slurm/tool.h"
#include "pool/client/backoff.h"
#include "slurm/conf/conf.h"

namespace rgpu::cli {
namespace {

// slurmctld tells slurmdbd of a job when it comes to it: pauses of 0.1 to some seconds lie between
// the tries.
constexpr int kTries = 7;

std::string with_note_if_any(const std::string &comment, const std::string &note)
{
    return note.empty() ? comment
                        : slurm::with_note(comment, note, slurm::avoided(comment, time(nullptr)));
}

bool no_accounting(const Error &error)
{
    return error.kind == ErrorKind::unsupported ||
           error.text.find("accounting_storage plugin") != std::string::npos;
}

Result<void> keep(const slurm::Job &job, const std::string &comment)
{
    for (int n = 0;; ++n) {
        auto done = run_tool({"sacctmgr", "-i", "modify", "job", "where", "jobid=" + job.id, "set",
                              "AdminComment=" + comment});
        if (done || no_accounting(done.error())) return {};
        if (n + 1 == kTries)
            return std::move(done).error().in("what it used is not in Slurm's accounting (" +
                                              comment + ")");
        std::this_thread::sleep_for(pool::pause(n, 0.5));
    }
}

}  // namespace

bool keeps_records()
{
    const char *path = getenv("SLURM_CONF");
    auto conf = path ? slurm::read_conf(path)
                     : Result<slurm::Conf>(error(ErrorKind::unavailable, "SLURM_CONF is not set"));
    return !conf || !conf->files[0].exists ||
           !conf->value("AccountingStorageType").value_or("none").ends_with("none");
}

Result<void> record_usage(const slurm::Job &job, const slurm::JobUsage &used,
                          const std::string &note)
{
    Result<slurm::JobRecord> record = look_at(job.name);
    const std::string comment =
        slurm::to_comment(used, with_note_if_any(record ? record->comment : "", note));
    // Slurm may be told to requeue what fails with some exit status (RequeueExit).
    if (!record || !record->ended || job.failed) return keep(job, comment);
    behind([&] {
        if (auto kept = keep(job, comment); !kept) slurm::tell_of_job(job, kept.error());
    });
    return {};
}

}  // namespace rgpu::cli
