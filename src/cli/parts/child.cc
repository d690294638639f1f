// SPDX-License-Identifier: Apache-2.0
#include "cli/parts/child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "cli/parts/command.h"
#include "util/clock.h"
#include "util/fd.h"

namespace rgpu::cli {
namespace {

constexpr int kEnding[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
constexpr int kPassed[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH, SIGCONT};

template <size_t N> sigset_t set_of(const int (&signals)[N])
{
    sigset_t set;
    sigemptyset(&set);
    for (int signal : signals) sigaddset(&set, signal);
    return set;
}

sigset_t held()
{
    sigset_t set = set_of(kPassed);
    sigaddset(&set, SIGCHLD);
    return set;
}

[[noreturn]] void become_command(const std::vector<std::string> &command)
{
    sigset_t none;
    sigemptyset(&none);
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    std::vector<char *> argv;
    for (const std::string &word : command) argv.push_back(const_cast<char *>(word.c_str()));
    argv.push_back(nullptr);
    execvp(argv[0], argv.data());
    int why = errno;
    fprintf(stderr, "rgpu: %s: %s\n", argv[0], strerror(why));
    _exit(why == ENOENT ? kNotFound : kNotExecutable);
}

pid_t start(const std::vector<std::string> &command)
{
    pid_t pid = fork();
    if (pid == 0) become_command(command);
    return pid;
}

// The same, with what comes first. The pipe closes when the command begins.
pid_t start_prepared(const std::vector<std::string> &command, const Preparation &preparation)
{
    int ends[2];
    if (!preparation.in_child || pipe2(ends, O_CLOEXEC) != 0) return start(command);
    Fd from(ends[0]), to(ends[1]);
    pid_t pid = fork();
    if (pid == 0) {
        if (auto prepared = preparation.in_child(); !prepared) {
            const std::string &why = prepared.error().text;
            _exit(write(to.get(), why.data(), why.size()) < 0 ? kOwnFailure : kOk);
        }
        become_command(command);
    }
    to.reset();
    std::string why;
    char buffer[512];
    for (ssize_t n; (n = read(from.get(), buffer, sizeof buffer)) > 0;)
        why.append(buffer, static_cast<size_t>(n));
    if (why.empty() || pid < 0) return pid;
    waitpid(pid, nullptr, 0);
    preparation.otherwise(why);
    return start(command);
}

}  // namespace

void hold_signals()
{
    sigset_t set = held();
    sigprocmask(SIG_BLOCK, &set, nullptr);
}

std::optional<int> ending_signal(Milliseconds within)
{
    sigset_t set = set_of(kEnding);
    timespec limit{within.count() / 1000, static_cast<long>(within.count() % 1000) * 1000000};
    int signal = sigtimedwait(&set, nullptr, &limit);
    return signal > 0 ? std::optional(signal) : std::nullopt;
}

int run_command(const std::vector<std::string> &command, Milliseconds period,
                const std::function<void()> &tick, const Preparation &preparation)
{
    pid_t pid = start_prepared(command, preparation);
    if (pid < 0)
        return fail(
            error(ErrorKind::exhausted, "cannot start %s: %s", command[0].c_str(), strerror(errno)),
            kOwnFailure);

    sigset_t signals = held();
    Time next = now() + period;
    for (;;) {
        Milliseconds left = std::max(Milliseconds(0), Milliseconds(next - now()));
        timespec limit{left.count() / 1000, static_cast<long>(left.count() % 1000) * 1000000};
        siginfo_t info;
        int signal = sigtimedwait(&signals, &info, &limit);
        int status = 0;
        if (waitpid(pid, &status, WNOHANG) == pid)
            return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
        bool sent_by_a_process = signal > 0 && info.si_code <= 0;
        if (sent_by_a_process && signal != SIGCHLD) kill(pid, signal);
        if (now() >= next) {
            tick();
            next = now() + period;
        }
    }
}

}  // namespace rgpu::cli
