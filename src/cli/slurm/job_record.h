// SPDX-License-Identifier: Apache-2.0
// Slurm's own record of a job, by its commands: looked at, and given our note.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "slurm/jobs/record.h"
#include "util/result.h"

namespace rgpu::cli {

// Asks scontrol. `job` is what it calls the job: "17", "14_3".
Result<slurm::JobRecord> look_at(const std::string &job);

// Puts the note into the job's AdminComment. A job that has ended takes none from scontrol: then it
// goes into the accounting database, where there is one.
Result<void> put_note(const std::string &job, std::string_view comment, std::string_view note,
                      const std::vector<slurm::Avoided> &avoid);

}  // namespace rgpu::cli
