#include "serverd/rgpud/workers.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>

#include "util/defaults.h"
#include "util/log.h"

namespace rgpu::serverd {
namespace {

std::string ended_how(int status)
{
    if (WIFSIGNALED(status))
        return "was ended by signal " + std::to_string(WTERMSIG(status));
    if (WEXITSTATUS(status))
        return "ended with status " + std::to_string(WEXITSTATUS(status));
    return "ended";
}

}  // namespace

Result<pid_t> Workers::start(const std::string &lease, const Launch &what, const std::string &who)
{
    // Held over the fork: tend() must not meet a process that is not in the table yet.
    std::lock_guard lock(mutex_);
    Result<pid_t> pid = launch(what);
    if (!pid)
        return pid;
    workers_[*pid] = {lease, kNever};
    ++started_;
    log_info("lease %s: worker %d for %s, as user %s", short_id(lease).c_str(), *pid, who.c_str(),
             what.account.name.c_str());
    return pid;
}

void Workers::end_lease(const std::string &lease, Time now)
{
    std::lock_guard lock(mutex_);
    for (auto &[pid, worker] : workers_) {
        if (worker.lease != lease || worker.kill_at != kNever)
            continue;
        kill(-pid, SIGTERM);
        worker.kill_at = now + defaults::kKillAfter;
    }
}

Time Workers::tend(Time now)
{
    std::lock_guard lock(mutex_);
    Time next = kNever;
    for (auto it = workers_.begin(); it != workers_.end();) {
        auto &[pid, worker] = *it;
        siginfo_t info{};
        if (waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
            info.si_pid == pid) {
            // Whatever it left in its session goes with it; before the pid can be another's.
            kill(-pid, SIGKILL);
            int status = 0;
            waitpid(pid, &status, 0);
            log_info("lease %s: worker %d %s", short_id(worker.lease).c_str(), pid,
                     ended_how(status).c_str());
            it = workers_.erase(it);
            continue;
        }
        if (worker.kill_at <= now) {
            kill(-pid, SIGKILL);
            worker.kill_at = now + defaults::kKillAfter;
        }
        next = std::min(next, worker.kill_at);
        ++it;
    }
    return next;
}

int Workers::count(const std::string &lease) const
{
    std::lock_guard lock(mutex_);
    return static_cast<int>(std::count_if(workers_.begin(), workers_.end(), [&](const auto &entry) {
        return entry.second.lease == lease;
    }));
}

int Workers::count() const
{
    std::lock_guard lock(mutex_);
    return static_cast<int>(workers_.size());
}

uint64_t Workers::started() const
{
    std::lock_guard lock(mutex_);
    return started_;
}

}  // namespace rgpu::serverd
