// SPDX-License-Identifier: Apache-2.0
// The watcher is a shell that reads a pipe: a word means an orderly end, end of file a sudden one.
#include "plugin/spank/watch.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "plugin/slurm.h"

namespace rgpu::plugin {
namespace {

constexpr char kScript[] =
    R"(read -r word; [ "$word" = end ] || exec "$1" slurm lost --job "$2" --lease "$3")";

int write_end = -1;  // closed by exec in every task, so slurmstepd alone holds it

// In a child of slurmstepd, which may have threads: only what is safe after fork.
[[noreturn]] void become_watcher(int read_end, const char *const *arguments)
{
    // Out of the step: not its session, not its process tree, none of its files.
    setsid();
    if (fork() != 0) _exit(0);
    dup2(read_end, 0);
    int null = open("/dev/null", O_WRONLY);
    dup2(null, 1);
    dup2(null, 2);
    close_range(3, ~0u, 0);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    execv("/bin/sh", const_cast<char **>(arguments));
    _exit(127);
}

}  // namespace

void start_watch(const Settings &settings, const std::string &job, const std::string &lease)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        slurm_error("rgpu: slurmstepd is not watched: pipe: %s", strerror(errno));
        return;
    }
    const char *arguments[] = {
        "sh",        "-c",          kScript, "rgpu-watch", settings.rgpu.c_str(),
        job.c_str(), lease.c_str(), nullptr};
    pid_t child = fork();
    if (child == 0) become_watcher(ends[0], arguments);
    close(ends[0]);
    if (child < 0) {
        slurm_error("rgpu: slurmstepd is not watched: fork: %s", strerror(errno));
        close(ends[1]);
        return;
    }
    while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) continue;
    write_end = ends[1];
}

void end_watch()
{
    if (write_end < 0) return;
    // The watcher may have been killed: no SIGPIPE for slurmstepd, which ignores it anyway.
    if (write(write_end, "end\n", 4) != 4) slurm_debug("rgpu: the watcher of slurmstepd is gone");
    close(write_end);
    write_end = -1;
}

}  // namespace rgpu::plugin
