// The worker processes of this host: one for each client process, each belonging to a lease.
//
// Any thread may call. A worker ends by itself when its connection closes; end_lease() is for
// those whose lease is over: SIGTERM at once, SIGKILL a second later. tend() does the waiting.
// Workers outlive rgpud: adopt() takes over those of the one before.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "serverd/rgpud/process.h"
#include "serverd/rgpud/worker_dir.h"
#include "util/clock.h"

namespace rgpu::serverd {

class Workers {
public:
    // Finds what an earlier rgpud left running. Before the first start(); needed once.
    Result<void> adopt(const std::string &directory);
    // The leases of all workers, one entry each, as they were when they started.
    std::vector<pool::Lease> leases() const;

    // Starts one; `who` is for the log. To the launch's descriptors are added, in front of all but
    // the first, its control socket (4) and its lock (5).
    Result<pid_t> start(const pool::Lease &lease, Launch launch, const std::string &who);

    // Ends all workers of a lease.
    void end_lease(const std::string &lease, Time now);

    // Reaps what has ended and kills what does not listen. Returns when it wants to be called again
    // at the latest; SIGCHLD is a reason to call it before.
    Time tend(Time now);

    int count(const std::string &lease) const;
    int count() const;
    uint64_t started() const;

private:
    struct Worker {
        pool::Lease lease;
        pid_t pid = 0;  // 0: adopted, and it does not listen on its control socket yet
        Fd process;     // of an adopted one
        bool child = false;
        Time kill_at = kNever;
    };
    void signal(const std::string &name, Worker &worker, int number);
    bool has_ended(const std::string &name, Worker &worker);

    mutable std::mutex mutex_;
    std::optional<WorkerDir> dir_;
    std::map<std::string, Worker> workers_;  // by the name in the directory
    uint64_t started_ = 0;
};

}  // namespace rgpu::serverd
