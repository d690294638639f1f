// SPDX-License-Identifier: Apache-2.0
#include "cli/slurm/job_record.h"

#include "cli/slurm/tool.h"

namespace rgpu::cli {

Result<slurm::JobRecord> look_at(const std::string &job)
{
    // In the order of their numbers: the leader of a heterogeneous job is its first part.
    auto printed = run_tool(
        {"squeue", "-h", "-a", "-t", "all", "-S", "i", "-j", job, "-O", slurm::kRecordFormat});
    if (!printed) return std::move(printed).error();
    auto record = slurm::parse_job(*printed);
    return record ? Result<slurm::JobRecord>(std::move(*record))
                  : Error{ErrorKind::unavailable, "squeue -j " + job + " shows no job"};
}

Result<void> put_note(const std::string &job, std::string_view comment, std::string_view note,
                      const std::vector<slurm::Avoided> &avoid)
{
    std::string text = slurm::with_note(comment, note, avoid);
    auto done = run_tool({"scontrol", "update", "JobId=" + job, "AdminComment=" + text});
    if (!done)
        done = run_tool({"sacctmgr", "-i", "modify", "job", "where", "jobid=" + job, "set",
                         "AdminComment=" + text});
    return done ? Result<void>() : std::move(done).error();
}

}  // namespace rgpu::cli
