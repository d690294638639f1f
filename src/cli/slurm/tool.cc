// SPDX-License-Identifier: Apache-2.0
#include "cli/slurm/tool.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "util/fd.h"

namespace rgpu::cli {
namespace {

constexpr size_t kMostPrinted = size_t{16} << 20;

// Reads both to their ends. What is too much is read, too, and forgotten.
void read_both(int out, int err, std::string &printed, std::string &told)
{
    pollfd look[] = {{out, POLLIN, 0}, {err, POLLIN, 0}};
    std::string *to[] = {&printed, &told};
    for (int open = 2; open > 0 && (poll(look, 2, -1) > 0 || errno == EINTR);)
        for (int i = 0; i < 2; ++i) {
            if (look[i].fd < 0 || !look[i].revents) continue;
            char buffer[16384];
            ssize_t n = read(look[i].fd, buffer, sizeof buffer);
            if (n <= 0) {
                look[i].fd = -1;
                --open;
            } else if (to[i]->size() < kMostPrinted) {
                to[i]->append(buffer, static_cast<size_t>(n));
            }
        }
}

std::string first_line(const std::string &text) { return text.substr(0, text.find('\n')); }

}  // namespace

Result<std::string> run_tool(const std::vector<std::string> &command)
{
    int out[2], err[2];
    if (pipe2(out, O_CLOEXEC) != 0)
        return error(ErrorKind::exhausted, "%s: no pipe: %s", command[0].c_str(), strerror(errno));
    Fd out_read(out[0]), out_write(out[1]);
    if (pipe2(err, O_CLOEXEC) != 0)
        return error(ErrorKind::exhausted, "%s: no pipe: %s", command[0].c_str(), strerror(errno));
    Fd err_read(err[0]), err_write(err[1]);
    std::vector<char *> arguments;
    for (const std::string &word : command) arguments.push_back(const_cast<char *>(word.c_str()));
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, out_write.get(), 1);
    posix_spawn_file_actions_adddup2(&actions, err_write.get(), 2);
    pid_t child = 0;
    int failure = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (failure)
        return error(failure == ENOENT ? ErrorKind::unsupported : ErrorKind::internal, "%s: %s",
                     arguments[0], strerror(failure));
    out_write.reset();
    err_write.reset();
    std::string printed, told;
    read_both(out_read.get(), err_read.get(), printed, told);
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return error(ErrorKind::unavailable, "%s: %s", arguments[0],
                     first_line(told.empty() ? printed : told).c_str());
    return printed;
}

}  // namespace rgpu::cli
