#include "cli/slurm/job_record.h"

#include "cli/slurm/tool.h"

namespace rgpu::cli {

Result<slurm::JobRecord> look_at(const std::string &job)
{
    auto shown = run_tool({"scontrol", "show", "job", job});
    if (!shown) return std::move(shown).error();
    auto record = slurm::parse_job(*shown);
    return record ? Result<slurm::JobRecord>(std::move(*record))
                  : Error{ErrorKind::unavailable, "scontrol show job " + job + " shows no job"};
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
