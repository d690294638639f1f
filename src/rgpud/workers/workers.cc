// SPDX-License-Identifier: Apache-2.0
#include "rgpud/workers/workers.h"

#include <linux/sockios.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>

#include "serverd/handover.h"
#include "util/defaults.h"
#include "util/log.h"

namespace rgpu::serverd {
namespace {

// What lies untaken in sockets counts for the kernel as rgpud's own, and there is as much of it as
// descriptors (RLIMIT_NOFILE): of more, nobody's worker gets any. A program's lanes are taken at
// once.
constexpr size_t kMostUntaken = 128;  // of a lease

bool is_taken(const Fd &connection)
{
    int left = 0;
    return ioctl(connection.get(), SIOCOUTQ, &left) != 0 || left == 0;
}

std::string ended_how(int status)
{
    if (WIFSIGNALED(status)) return "was ended by signal " + std::to_string(WTERMSIG(status));
    if (WEXITSTATUS(status)) return "ended with status " + std::to_string(WEXITSTATUS(status));
    return "ended";
}

Result<Spawner::Started> start_child(const Launch &what)
{
    Result<pid_t> pid = launch(what);
    if (!pid) return std::move(pid).error();
    // A child keeps its pid until it is waited for.
    Fd process(static_cast<int>(syscall(SYS_pidfd_open, *pid, 0)));
    if (process) return Spawner::Started{*pid, std::move(process)};
    Error failed =
        error(ErrorKind::exhausted, "no descriptor of worker %d: %s", *pid, strerror(errno));
    kill(*pid, SIGKILL);
    waitpid(*pid, nullptr, 0);
    return failed;
}

}  // namespace

Workers::Worker &Workers::add(const std::string &name, const pool::Lease &lease, pid_t pid,
                              Fd process)
{
    Worker &worker = workers_[name];
    worker.lease = lease;
    worker.lease.secret.clear();
    worker.pid = pid;
    worker.process = std::move(process);
    epoll_event event{};
    event.events = EPOLLIN;
    (void)epoll_ctl(ends_.get(), EPOLL_CTL_ADD, worker.process.get(), &event);
    return worker;
}

Result<void> Workers::adopt(const std::string &directory, std::shared_ptr<Spawner> spawner)
{
    std::lock_guard lock(mutex_);
    Result<WorkerDir> dir = WorkerDir::open(directory);
    if (!dir) return std::move(dir).error();
    dir_ = std::move(*dir);
    spawner_ = std::move(spawner);
    ends_.reset(epoll_create1(EPOLL_CLOEXEC));
    std::map<std::string, Spawner::Found> spawned;
    if (spawner_) {
        Result<std::vector<Spawner::Found>> found = spawner_->list();
        if (!found) return std::move(found).error();
        for (Spawner::Found &one : *found)
            if (!one.name.empty()) spawned.emplace(one.name, std::move(one));
    }
    for (WorkerDir::Found &found : dir_->find()) {
        const auto at = spawned.find(found.name);
        if (at == spawned.end() && !found.process) {
            if (found.had_client) note_lost(found.lease);
            dir_->remove(found.name);
            continue;
        }
        if (at == spawned.end()) {
            add(found.name, found.lease, found.pid, std::move(found.process));
        } else {
            add(found.name, found.lease, at->second.pid, std::move(at->second.process)).group =
                at->second.key;
            spawned.erase(at);
        }
        log_info("lease %s: its worker %d of an earlier rgpud lives, and is adopted",
                 short_id(found.lease.id).c_str(), workers_[found.name].pid);
    }
    // Nobody's: what is known of it was lost.
    for (const auto &[name, one] : spawned) spawner_->signal(one.key, name, SIGKILL);
    return {};
}

// It may have ended well: nobody is left who knows.
void Workers::note_lost(const pool::Lease &lease)
{
    constexpr char kHow[] = "a worker ended while rgpud was away, as when the host goes down";
    log_warning("lease %s (%s): %s", short_id(lease.id).c_str(), to_text(lease.owner).c_str(),
                kHow);
    died_.push_back({lease, kHow});
}

std::vector<pool::Lease> Workers::leases() const
{
    std::lock_guard lock(mutex_);
    std::vector<pool::Lease> leases;
    for (const auto &[name, worker] : workers_) leases.push_back(worker.lease);
    return leases;
}

Result<pid_t> Workers::start(const pool::Lease &lease, const Group &group, WorkerLaunch what,
                             const std::string &who, Fd channel)
{
    // Held over the start: tend() must not meet a process that is not in the table yet.
    std::lock_guard lock(mutex_);
    Result<WorkerDir::Made> made = dir_->make(lease);
    if (!made) return std::move(made).error();
    const char *end = made->name.data() + made->name.size();
    std::from_chars(made->name.data(), end, what.start.number, 16);  // which the name is
    what.descriptors[kControlDescriptor - kSocketDescriptor] = made->control.get();
    what.environment.merge(encode(what.start));
    Result<Spawner::Started> started = spawner_ ? spawner_->start(group, made->name, what)
                                                : start_child(what);
    if (!started) {
        dir_->remove(made->name);
        return std::move(started).error();
    }
    if (!spawner_) dir_->note_process(made->name, started->pid);
    if (!channel) dir_->note_client(made->name);
    const pid_t pid = started->pid;
    Worker &worker = add(made->name, lease, pid, std::move(started->process));
    worker.group = spawner_ ? group.key : "";
    worker.child = !spawner_;
    worker.channel = std::move(channel);
    ++started_;
    log_info("lease %s: worker %d for %s, as user %s", short_id(lease.id).c_str(), pid, who.c_str(),
             group.account.name.c_str());
    return pid;
}

Fd Workers::hand_over(const std::string &lease, const Fd &socket, const Introduction &client,
                      const std::string &who)
{
    std::lock_guard lock(mutex_);
    while (auto *entry = waiting(lease)) {
        auto &[name, worker] = *entry;
        Fd channel = std::move(worker.channel);
        dir_->note_client(name);
        if (!serverd::hand_over(channel.get(), socket.get(), client)) continue;
        log_info("lease %s: worker %d, which waited, is for %s", short_id(lease).c_str(),
                 worker.pid, who.c_str());
        return channel;
    }
    return {};
}

// One that was told to end waits no more.
Workers::Entry *Workers::waiting(const std::string &lease)
{
    auto found = std::find_if(workers_.begin(), workers_.end(), [&](const auto &entry) {
        return entry.second.lease.id == lease && entry.second.channel &&
               entry.second.kill_at == kNever;
    });
    return found == workers_.end() ? nullptr : &*found;
}

bool Workers::waits(const std::string &lease)
{
    std::lock_guard lock(mutex_);
    return waiting(lease);
}

void Workers::get_ready(const std::string &lease)
{
    std::lock_guard lock(mutex_);
    Entry *entry = waiting(lease);
    if (!entry || std::exchange(entry->second.ready, true)) return;
    // One that has ended is met by tend().
    if (serverd::get_ready(entry->second.channel.get()))
        log_info("lease %s: worker %d, which waits, makes its context", short_id(lease).c_str(),
                 entry->second.pid);
}

std::vector<std::string> Workers::without_client()
{
    std::lock_guard lock(mutex_);
    std::vector<std::string> leases = std::move(ended_);
    ended_.clear();
    // Several of one lease may have ended since.
    std::sort(leases.begin(), leases.end());
    leases.erase(std::unique(leases.begin(), leases.end()), leases.end());
    std::erase_if(leases, [this](const std::string &lease) { return with_client(lease) > 0; });
    return leases;
}

std::vector<Workers::Died> Workers::died()
{
    std::lock_guard lock(mutex_);
    return std::exchange(died_, {});
}

Result<void> Workers::give_lane(const std::string &lease, uint64_t number, const Fd &lane)
{
    std::lock_guard lock(mutex_);
    const auto found = workers_.find(format_worker_number(number));
    if (found == workers_.end() || found->second.lease.id != lease ||
        found->second.kill_at != kNever)
        return error(ErrorKind::invalid, "it has no worker of that number");
    if (const size_t left = untaken_lanes(lease); left >= kMostUntaken)
        return error(ErrorKind::exhausted, "its workers have not taken %zu lanes yet", left);
    Result<Fd> reached = dir_->reach(found->first, found->second.pid);
    if (!reached) return std::move(reached).error();
    Result<void> given = serverd::hand_over(reached->get(), lane.get(), {});
    if (given) found->second.lanes.push_back(std::move(*reached));
    return given;
}

size_t Workers::untaken_lanes(const std::string &lease)
{
    size_t all = 0;
    for (auto &[name, worker] : workers_) {
        if (worker.lease.id != lease) continue;
        std::erase_if(worker.lanes, is_taken);
        all += worker.lanes.size();
    }
    return all;
}

void Workers::signal(const std::string &name, Worker &worker, int number)
{
    if (!worker.group.empty())
        spawner_->signal(worker.group, name, number);
    else if (worker.child)
        kill(-worker.pid, number);
    else
        syscall(SYS_pidfd_send_signal, worker.process.get(), number, nullptr, 0);
}

size_t Workers::on_gpu(const std::string &lease, const std::string &uuid) const
{
    std::lock_guard lock(mutex_);
    return static_cast<size_t>(
        std::count_if(workers_.begin(), workers_.end(), [&](const auto &entry) {
            const pool::Lease &seen = entry.second.lease;
            return seen.id == lease &&
                   std::any_of(seen.gpus.begin(), seen.gpus.end(),
                               [&](const pool::Portion &gpu) { return gpu.uuid == uuid; });
        }));
}

Result<std::vector<Fd>> Workers::tell_size(const std::string &lease) const
{
    std::lock_guard lock(mutex_);
    std::vector<Fd> told;
    for (const auto &[name, worker] : workers_) {
        if (worker.lease.id != lease || worker.kill_at != kNever) continue;
        Result<Fd> reached = dir_->reach(name, worker.pid);
        if (reached)
            if (Result<void> said = serverd::get_ready(reached->get()); !said)
                reached = std::move(said).error();
        // One that has just ended is met by tend(), and one that only begins reads the size before
        // it takes anything.
        pollfd look{worker.process.get(), POLLIN, 0};
        if (!reached && (poll(&look, 1, 0) == 1 || dir_->is_starting(name))) continue;
        if (!reached) return std::move(reached).error();
        shutdown(reached->get(), SHUT_WR);
        told.push_back(std::move(*reached));
    }
    return told;
}

void Workers::end_lease(const std::string &lease, Time now)
{
    std::lock_guard lock(mutex_);
    for (auto &[name, worker] : workers_) {
        if (worker.lease.id != lease || worker.kill_at != kNever) continue;
        signal(name, worker, SIGTERM);
        worker.kill_at = now + defaults::kKillAfter;
    }
}

bool Workers::has_ended(const std::string &name, Worker &worker)
{
    pollfd look{worker.process.get(), POLLIN, 0};
    if (poll(&look, 1, 0) != 1) return false;
    std::optional<int> how;
    if (!worker.group.empty()) {
        how = spawner_->reap(worker.group, name);
    } else if (worker.child) {
        // Whatever it left in its session goes with it; before the pid can be another's.
        kill(-worker.pid, SIGKILL);
        int status = 0;
        if (waitpid(worker.pid, &status, WNOHANG) == worker.pid) how = status;
    }
    if (how && WIFSIGNALED(*how) && worker.kill_at == kNever && !worker.channel) {
        const std::string text = "worker " + std::to_string(worker.pid) + " " + ended_how(*how) +
                                 (WTERMSIG(*how) == SIGKILL ? ", as when memory runs out" : "");
        log_warning("lease %s (%s): %s", short_id(worker.lease.id).c_str(),
                    to_text(worker.lease.owner).c_str(), text.c_str());
        died_.push_back({worker.lease, text});
        return true;
    }
    log_info("lease %s: worker %d %s", short_id(worker.lease.id).c_str(), worker.pid,
             how ? ended_how(*how).c_str() : "ended");
    return true;
}

Time Workers::tend(Time now)
{
    std::lock_guard lock(mutex_);
    Time next = kNever;
    for (auto it = workers_.begin(); it != workers_.end();) {
        auto &[name, worker] = *it;
        if (has_ended(name, worker)) {
            dir_->remove(name);
            if (!worker.channel) ended_.push_back(worker.lease.id);
            it = workers_.erase(it);
            continue;
        }
        std::erase_if(worker.lanes, is_taken);
        if (worker.kill_at <= now) {
            signal(name, worker, SIGKILL);
            worker.kill_at = now + defaults::kKillAfter;
        }
        next = std::min(next, worker.kill_at);
        ++it;
    }
    return next;
}

int Workers::with_client(const std::string &lease) const
{
    return static_cast<int>(std::count_if(workers_.begin(), workers_.end(), [&](const auto &entry) {
        return entry.second.lease.id == lease && !entry.second.channel;
    }));
}

int Workers::count(const std::string &lease) const
{
    std::lock_guard lock(mutex_);
    return with_client(lease);
}

int Workers::count() const
{
    std::lock_guard lock(mutex_);
    return static_cast<int>(std::count_if(workers_.begin(), workers_.end(),
                                          [](const auto &entry) { return !entry.second.channel; }));
}

int Workers::all(const std::string &lease) const
{
    std::lock_guard lock(mutex_);
    return static_cast<int>(std::count_if(workers_.begin(), workers_.end(), [&](const auto &entry) {
        return entry.second.lease.id == lease;
    }));
}

bool Workers::any(const std::string &lease) const
{
    std::lock_guard lock(mutex_);
    return std::any_of(workers_.begin(), workers_.end(),
                       [&](const auto &entry) { return entry.second.lease.id == lease; });
}

uint64_t Workers::started() const
{
    std::lock_guard lock(mutex_);
    return started_;
}

}  // namespace rgpu::serverd
