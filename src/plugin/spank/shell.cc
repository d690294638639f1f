#include "plugin/spank/shell.h"

#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "slurm/terms/nodes.h"

namespace rgpu::plugin {

int shell_post_opt(spank_t spank, bool local)
{
    // An srun in a job passes on what the job has set.
    const bool in_job = local && getenv("SLURM_JOB_ID");
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

}  // namespace rgpu::plugin
