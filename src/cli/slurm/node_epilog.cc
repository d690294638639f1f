// SPDX-License-Identifier: Apache-2.0
// rgpu slurm node-epilog: removes a job's lease file from its node.
//
// For Epilog of slurmd, as root. It ends with 0 unless this node itself is unfit, for Slurm drains
// a node whose epilog fails.
#include <cerrno>
#include <ctime>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include "cli/slurm/job_command.h"
#include "cli/slurm/job_files.h"
#include "slurm/terms/paths.h"

namespace rgpu::cli {
namespace {

// Seconds; credentials that let slurmd skip a prolog are good for two minutes unless configured.
constexpr time_t kEndedKept = 30 * 60;

// Forgets jobs that have not been here for long.
void sweep(const std::string &rundir)
{
    std::error_code failure;
    for (const auto &entry : std::filesystem::directory_iterator(rundir, failure)) {
        std::string ended = slurm::ended_path(entry.path().string() + "/lease.json");
        struct stat status;
        if (stat(ended.c_str(), &status) == 0 && status.st_mtime + kEndedKept < time(nullptr) &&
            unlink(ended.c_str()) == 0)
            rmdir(entry.path().c_str());  // not that of a job which is here again
    }
}

class NodeEpilog : public JobCommand {
public:
    int run_for(slurm::Job &job, Context &context) override
    {
        auto config = context.config();
        if (!config) return fail_job(job, config.error());
        std::string path = slurm::lease_path((*config)->slurm.rundir, job.node, job.id);
        // slurmd may leave the next run's prolog out where the job comes back soon: its tasks are
        // refused then. Before the lease file goes: a task never finds nothing.
        if (auto noted = write_file(slurm::ended_path(path), "", 0, kErrorMode); !noted)
            return fail_job(job, noted.error());
        for (const std::string &file : {path, path + ".new", slurm::error_path(path)})
            if (unlink(file.c_str()) != 0 && errno != ENOENT)
                return fail_job(job, failed("removing", file));
        // Those that steps of the job locked; they are numbered without gaps.
        for (unsigned place = 0; unlink(slurm::gpu_path(path, place).c_str()) == 0; ++place)
            continue;
        sweep(folder_of(folder_of(path)));
        return kOk;
    }
};

const Registered<NodeEpilog> node_epilog{"slurm", "node-epilog",
                                         "for Epilog: remove the job's lease file"};

}  // namespace
}  // namespace rgpu::cli
