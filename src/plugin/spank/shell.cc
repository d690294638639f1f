// SPDX-License-Identifier: Apache-2.0
#include "plugin/spank/shell.h"

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "plugin/spank/advice.h"
#include "plugin/spank/options.h"
#include "slurm/terms/nodes.h"
#include "slurm/terms/request.h"

namespace rgpu::plugin {
namespace {

// This is an srun in a job. Known before Slurm has set the variable for a job of its own.
bool in_job = false;

std::vector<std::string> command_line()
{
    std::ifstream file("/proc/self/cmdline", std::ios::binary);
    std::vector<std::string> out;
    for (std::string word; std::getline(file, word, '\0');) out.push_back(word);
    return out;
}

// What was typed for this step, and is not what its job was submitted with: Slurm hands that on in
// the environment, and srun takes it from there as if it had been typed.
JobOptions typed_here()
{
    JobOptions out;
    for (const auto &[name, value] : typed_job_options()) {
        const char *of_job = getenv(("SLURM_SPANK_" + slurm::option_variable(name)).c_str());
        if (!of_job || (!value.empty() && value != of_job)) out.emplace(name, value);
    }
    return out;
}

}  // namespace

int shell_post_opt(spank_t spank, bool local)
{
    // An srun in a job passes on what the job has set.
    in_job = local && getenv("SLURM_JOB_ID");
    if (!in_job) {
        if (const char *devices = getenv("CUDA_VISIBLE_DEVICES"))
            setenv(kShellDevices, devices, 1);
        else
            unsetenv(kShellDevices);
    }
    if (!local && std::string_view(program_invocation_short_name) == "salloc")
        (void)spank_job_control_setenv(spank, slurm::kSallocMark, "1", 1);
    return ESPANK_SUCCESS;
}

int shell_user_init(spank_t spank)
{
    const JobOptions typed = typed_here();
    if (typed.empty()) return ESPANK_SUCCESS;
    uint32_t job = 0;
    int words = 0;
    char **program = nullptr;
    if (spank_get_item(spank, S_JOB_ID, &job) != ESPANK_SUCCESS ||
        spank_get_item(spank, S_JOB_ARGV, &words, &program) != ESPANK_SUCCESS || words < 0)
        return ESPANK_SUCCESS;
    if (in_job || names_job(command_line(), static_cast<size_t>(words)))
        slurm_spank_log("srun: rgpu: %s", step_advice(typed, job).c_str());
    return ESPANK_SUCCESS;
}

}  // namespace rgpu::plugin
