// SPDX-License-Identifier: Apache-2.0
#include "cli/slurm/lose_servers.h"

#include <ctime>

#include "cli/slurm/job_record.h"
#include "cli/slurm/tool.h"

namespace rgpu::cli {

Result<std::string> lose_servers(const SlurmConfig &slurm, const std::string &job,
                                 const slurm::JobRecord &record,
                                 const std::vector<slurm::LostServer> &lost, bool running)
{
    slurm::Fate fate = slurm::fate_of(record, slurm.lost_server, running);
    if (fate == slurm::Fate::requeue && slurm::dies_again(record, lost)) fate = slurm::Fate::hold;
    slurm::FateStep step = slurm::step_of(fate, job, running);
    std::string note = slurm::what_happened(lost) + ": " + step.done;
    std::vector<slurm::Avoided> avoid =
        fate == slurm::Fate::requeue || fate == slurm::Fate::hold
            ? slurm::avoided_after(slurm, record, lost, time(nullptr))
            : std::vector<slurm::Avoided>{};
    // One that has ended takes a note only when it is requeued, one that is cancelled only before.
    bool note_first = fate == slurm::Fate::end;
    Result<void> noted;
    if (note_first) noted = put_note(job, record.comment, note, avoid);
    if (!step.command.empty())
        if (auto done = run_tool(step.command); !done)
            return std::move(done).error().in(slurm::what_happened(lost));
    if (!note_first) noted = put_note(job, record.comment, note, avoid);
    if (!noted && fate != slurm::Fate::leave)
        return std::move(noted).error().in(note + "; its AdminComment cannot be set");
    return note;
}

}  // namespace rgpu::cli
