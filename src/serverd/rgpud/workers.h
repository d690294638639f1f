// The worker processes of this host: one for each client process, each belonging to a lease.
//
// Any thread may call. A worker ends by itself when its connection closes; end_lease() is for
// those whose lease is over: SIGTERM at once, SIGKILL a second later. tend() does the waiting.
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "serverd/rgpud/process.h"
#include "util/clock.h"

namespace rgpu::serverd {

class Workers {
public:
    // Starts one; `who` is for the log.
    Result<pid_t> start(const std::string &lease, const Launch &launch, const std::string &who);

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
        std::string lease;
        Time kill_at = kNever;
    };

    mutable std::mutex mutex_;
    std::map<pid_t, Worker> workers_;
    uint64_t started_ = 0;
};

}  // namespace rgpu::serverd
