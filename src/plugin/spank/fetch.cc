// SPDX-License-Identifier: Apache-2.0
#include "plugin/spank/fetch.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <spawn.h>
#include <string>
#include <sys/wait.h>
#include <vector>

#include "plugin/slurm.h"
#include "slurm/terms/nodes.h"

namespace rgpu::plugin {
namespace {

// What slurmd gives a Prolog of a job with GPUs of the pool.
std::vector<std::string> prolog_environment(const Settings &settings, uint32_t job, uint32_t user,
                                            const std::string &node)
{
    std::vector<std::string> out = {"PATH=/usr/bin:/bin", "SLURM_JOB_ID=" + std::to_string(job),
                                    "SLURM_JOB_UID=" + std::to_string(user),
                                    "SLURMD_NODENAME=" + node,
                                    std::string("SPANK_") + slurm::kNodesMark + "=1"};
    if (!settings.conf.empty()) out.push_back("RGPU_CONF=" + settings.conf);
    if (const char *conf = getenv("SLURM_CONF")) out.push_back(std::string("SLURM_CONF=") + conf);
    return out;
}

std::vector<char *> pointers(std::vector<std::string> &strings)
{
    std::vector<char *> out;
    for (std::string &string : strings) out.push_back(string.data());
    out.push_back(nullptr);
    return out;
}

}  // namespace

void fetch_leases(const Settings &settings, uint32_t job, uint32_t user, const std::string &node)
{
    std::vector<std::string> words = {settings.rgpu, "slurm", "node-prolog"};
    std::vector<std::string> variables = prolog_environment(settings, job, user, node);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", 0, 0);
    posix_spawn_file_actions_adddup2(&actions, 0, 1);
    posix_spawn_file_actions_addclosefrom_np(&actions, 3);
    pid_t child = 0;
    int failure = posix_spawnp(&child, settings.rgpu.c_str(), &actions, nullptr,
                               pointers(words).data(), pointers(variables).data());
    posix_spawn_file_actions_destroy(&actions);
    if (failure) {
        slurm_error("rgpu: job %u: its leases cannot be fetched: %s: %s", job,
                    settings.rgpu.c_str(), strerror(failure));
        return;
    }
    while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) continue;
    slurm_info("rgpu: job %u: slurmd left out its Prolog; its leases were fetched now", job);
}

}  // namespace rgpu::plugin
