// SPDX-License-Identifier: Apache-2.0
// rgpu slurm lost: ends a job whose slurmstepd was killed on this node.
//
// Run by the watcher that the SPANK plugin starts. Slurm does not notice such a death by itself.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <syslog.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include "cli/parts/command.h"
#include "cli/slurm/tool.h"

namespace rgpu::cli {
namespace {

constexpr size_t kMostEnvironment = 4u << 20;  // more than Linux lets a process start with

std::string environment_of(const char *pid)
{
    std::string path = std::string("/proc/") + pid + "/environ", text;
    int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    char buffer[16384];
    for (ssize_t n;
         fd >= 0 && text.size() < kMostEnvironment && (n = read(fd, buffer, sizeof buffer)) > 0;)
        text.append(buffer, static_cast<size_t>(n));
    if (fd >= 0) close(fd);
    return text;
}

bool has(const std::string &environment, const std::string &variable)
{
    std::string mark = variable + std::string(1, '\0');
    size_t at = environment.find(mark);
    return at != environment.npos && (at == 0 || environment[at - 1] == '\0');
}

// The job's tasks on this node: nothing else has its lease file in the environment (in containers:
// rgpu container).
int kill_tasks(const std::string &lease)
{
    DIR *proc = opendir("/proc");
    int killed = 0;
    while (dirent *entry = proc ? readdir(proc) : nullptr) {
        if (strspn(entry->d_name, "0123456789") != strlen(entry->d_name)) continue;
        std::string environment = environment_of(entry->d_name);
        if (!has(environment, "RGPU_LEASE=" + lease) &&
            !has(environment, "RGPU_LEASE_OUTSIDE=" + lease))
            continue;
        killed += kill(static_cast<pid_t>(atoi(entry->d_name)), SIGKILL) == 0;
    }
    if (proc) closedir(proc);
    return killed;
}

class Lost : public Command {
public:
    void options(CLI::App &app) override
    {
        app.add_option("--job", job_, "what scancel calls the job: 17, 14_3")->required();
        app.add_option("--lease", lease_, "the job's lease file on this node")->required();
    }

    int run(Context &) override
    {
        int killed = kill_tasks(lease_);
        auto cancelled = run_tool({"scancel", job_});
        openlog("rgpu", LOG_PID, LOG_DAEMON);
        syslog(LOG_WARNING,
               "job %s: its slurmstepd was killed; ended %d of its processes and the job (scancel: "
               "%s)",
               job_.c_str(), killed, cancelled ? "done" : cancelled.error().text.c_str());
        return cancelled ? kOk : fail(std::move(cancelled).error().in("job " + job_));
    }

private:
    std::string job_, lease_;
};

const Registered<Lost> lost{"slurm", "lost",
                            "end a job whose slurmstepd was killed (the SPANK plugin runs it)"};

}  // namespace
}  // namespace rgpu::cli
