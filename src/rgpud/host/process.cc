// SPDX-License-Identifier: Apache-2.0
#include "rgpud/host/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "util/clock.h"

namespace rgpu::serverd {
namespace {

std::vector<char *> pointers(std::vector<std::string> &texts)
{
    std::vector<char *> all;
    for (std::string &text : texts) all.push_back(text.data());
    all.push_back(nullptr);
    return all;
}

struct Prepared {
    std::vector<std::string> command, environment;
    std::vector<char *> argv, envp;
    std::vector<int> descriptors;  // the last: where the child tells why exec failed
    Processors cpus{};
};

// In the child: only async-signal-safe calls, since other threads of rgpud held locks at the fork,
// and nothing that changes rgpud's memory.
[[noreturn]] void run_child(const Launch &launch, Prepared &prepared)
{
    default_signals();
    setsid();
    bind_to(prepared.cpus);
    int failure = prepared.descriptors.back();
    if (set_limits(launch.limits) && place_descriptors(prepared.descriptors)) {
        failure = static_cast<int>(prepared.descriptors.size()) - 1;
        if (fcntl(failure, F_SETFD, FD_CLOEXEC) == 0 &&
            prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && chdir("/") == 0)
            execve(prepared.argv[0], prepared.argv.data(), prepared.envp.data());
    }
    const int why = errno;
    [[maybe_unused]] ssize_t n = write(failure, &why, sizeof why);
    _exit(127);
}

// The child uses rgpud's memory until exec (vfork(2)): to copy the tables of its pages would cost
// more than all else. The thread stands still meanwhile; no handler of rgpud's may run in the
// child.
pid_t start_child(const Launch &launch, Prepared &prepared)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const pid_t pid = vfork();
    if (pid == 0) run_child(launch, prepared);
    const int why = errno;
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    errno = why;
    return pid;
}

}  // namespace

Result<pid_t> launch(const Launch &launch)
{
    Prepared prepared;
    prepared.command = launch.command;
    for (const auto &[name, value] : launch.environment)
        prepared.environment.push_back(name + "=" + value);
    prepared.argv = pointers(prepared.command);
    prepared.envp = pointers(prepared.environment);
    set_processors(prepared.cpus, launch.cpus);

    int ends[2];
    const Fd null(open("/dev/null", O_RDWR | O_CLOEXEC));
    if (!null || pipe2(ends, O_CLOEXEC) != 0)
        return error(ErrorKind::exhausted, "no pipe: %s", strerror(errno));
    Fd read_end(ends[0]), write_end(ends[1]);
    prepared.descriptors = {null.get(), launch.output < 0 ? null.get() : launch.output,
                            launch.errors < 0 ? 2 : launch.errors};
    prepared.descriptors.insert(prepared.descriptors.end(), launch.descriptors.begin(),
                                launch.descriptors.end());
    prepared.descriptors.push_back(write_end.get());
    if (prepared.descriptors.size() > kMostPlaced)
        return error(ErrorKind::internal, "%zu descriptors for %s", launch.descriptors.size(),
                     launch.command[0].c_str());
    const pid_t pid = start_child(launch, prepared);
    if (pid < 0)
        return error(ErrorKind::exhausted, "cannot start %s: %s", launch.command[0].c_str(),
                     strerror(errno));
    write_end.reset();
    int why = 0;
    ssize_t n;
    while ((n = read(read_end.get(), &why, sizeof why)) < 0 && errno == EINTR) {}
    if (n != sizeof why) return pid;  // the pipe closed at exec
    waitpid(pid, nullptr, 0);
    return error(ErrorKind::internal, "cannot start %s: %s", launch.command[0].c_str(),
                 strerror(why));
}

Result<std::string> output_of(Launch what, Milliseconds timeout, size_t limit)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return error(ErrorKind::exhausted, "no pipe: %s", strerror(errno));
    Fd read_end(ends[0]), write_end(ends[1]);
    what.output = write_end.get();
    Result<pid_t> pid = launch(what);
    write_end.reset();
    if (!pid) return std::move(pid).error();

    std::string text;
    Time deadline = now() + timeout;
    bool ended = false;
    while (!ended && text.size() <= limit) {
        pollfd look{read_end.get(), POLLIN, 0};
        auto left = static_cast<int>((deadline - now()).count());
        if (left <= 0 || poll(&look, 1, left) == 0) break;
        char block[4096];
        ssize_t n = read(read_end.get(), block, sizeof block);
        ended = n == 0;
        if (n > 0) text.append(block, static_cast<size_t>(n));
    }
    if (!ended) kill(-*pid, SIGKILL);
    int status = 0;
    while (waitpid(*pid, &status, 0) < 0 && errno == EINTR) {}
    const char *program = what.command[0].c_str();
    if (!ended)
        return error(ErrorKind::internal, "%s did not end within %s", program,
                     format_duration(timeout).c_str());
    if (WIFSIGNALED(status))
        return error(ErrorKind::internal, "%s was ended by signal %d", program, WTERMSIG(status));
    if (WEXITSTATUS(status))
        return error(ErrorKind::internal, "%s ended with status %d", program, WEXITSTATUS(status));
    return text;
}

}  // namespace rgpu::serverd
