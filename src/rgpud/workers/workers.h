// SPDX-License-Identifier: Apache-2.0
// The worker processes of this host: one for each client process, each belonging to a lease.
//
// Any thread may call. A worker ends by itself when its connection closes; end_lease() is for
// those whose lease is over: SIGTERM at once, SIGKILL a second later. tend() does the waiting.
// Workers outlive rgpud: adopt() takes over those of the one before. That one lives is known by its
// pidfd alone.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "rgpud/host/process.h"
#include "rgpud/workers/spawner.h"
#include "rgpud/workers/worker_dir.h"
#include "serverd/handover.h"
#include "serverd/worker_start.h"
#include "util/clock.h"

namespace rgpu::serverd {

// A worker's start. Workers::start() fills in the control socket, and the number by which lanes
// find the worker.
struct WorkerLaunch : Launch {
    WorkerStart start;

    // Its connection or channel, and its lease's memory account, at their agreed numbers.
    void give(int socket, int account) { descriptors = {socket, kNoDescriptor, account}; }
    // Returns the number that the descriptor gets in the worker.
    int give(int descriptor)
    {
        descriptors.push_back(descriptor);
        return kSocketDescriptor + static_cast<int>(descriptors.size()) - 1;
    }
};

class Workers {
public:
    // Finds what an earlier rgpud left running. Before the first start(); needed once. Without a
    // spawner workers are rgpud's own children.
    Result<void> adopt(const std::string &directory, std::shared_ptr<Spawner> spawner);
    // Readable when a worker has ended.
    int ended_fd() const { return ends_.get(); }
    // The leases of all workers, one entry each, as they were when they started.
    std::vector<pool::Lease> leases() const;

    // Starts one of this tenant; `who` is for the log. With a channel (handover.h) it is one that
    // waits for its client.
    Result<pid_t> start(const pool::Lease &lease, const Group &group, WorkerLaunch launch,
                        const std::string &who, Fd channel = {});
    // Gives a client to a waiting worker of its lease: what is left of its channel, for
    // wait_taken(); nothing when none took it.
    Fd hand_over(const std::string &lease, const Fd &socket, const Introduction &client,
                 const std::string &who);
    // Whether one waits for a client of this lease.
    bool waits(const std::string &lease);
    // Makes it get ready, if it has not been told so.
    void get_ready(const std::string &lease);
    // Leases of which a worker with a client has ended since the last call, and none has one now.
    std::vector<std::string> without_client();

    // Workers with a client that have died since the last call: ended by a signal that rgpud did
    // not send, or while no rgpud was there, and no spawner that knows how.
    struct Died {
        pool::Lease lease;
        std::string how;
    };
    std::vector<Died> died();

    // Gives a lane to that worker of the lease, which has told its client its number. Fails with
    // `invalid` where there is none, with `exhausted` where the lease's workers leave too many
    // untaken, and as reaching it does.
    Result<void> give_lane(const std::string &lease, uint64_t worker, const Fd &lane);

    // How many of a lease's workers have a place on this GPU.
    size_t on_gpu(const std::string &lease, const std::string &uuid) const;
    // Tells the lease's workers that it is about to have another size. Each of what is returned
    // hangs up when its worker has counted what it holds, or has ended. Fails with `unavailable`
    // where one cannot be told.
    Result<std::vector<Fd>> tell_size(const std::string &lease) const;

    // Ends all workers of a lease.
    void end_lease(const std::string &lease, Time now);

    // Reaps what has ended and kills what does not listen. Returns when it wants to be called again
    // at the latest; that ended_fd() is readable is a reason to call it before.
    Time tend(Time now);

    // Those that have a client, or had one.
    int count(const std::string &lease) const;
    int count() const;
    // Waiting ones, too.
    int all(const std::string &lease) const;
    bool any(const std::string &lease) const;
    uint64_t started() const;

private:
    struct Worker {
        pool::Lease lease;
        pid_t pid = 0;
        Fd process;
        std::string group;      // its key at the spawner; empty: rgpud started it itself
        bool child = false;     // of this rgpud
        Fd channel;             // of one that waits
        std::vector<Fd> lanes;  // given, and perhaps not taken
        bool ready = false;
        Time kill_at = kNever;
    };
    using Entry = std::pair<const std::string, Worker>;  // of workers_
    Entry *waiting(const std::string &lease);
    size_t untaken_lanes(const std::string &lease);
    int with_client(const std::string &lease) const;
    void signal(const std::string &name, Worker &worker, int number);
    bool has_ended(const std::string &name, Worker &worker);
    void note_lost(const pool::Lease &lease);
    Worker &add(const std::string &name, const pool::Lease &lease, pid_t pid, Fd process);

    mutable std::mutex mutex_;
    std::optional<WorkerDir> dir_;
    std::shared_ptr<Spawner> spawner_;
    Fd ends_;                                // epoll(7) of all workers' pidfds
    std::map<std::string, Worker> workers_;  // by the name in the directory
    std::vector<std::string> ended_;         // leases of workers that had a client
    std::vector<Died> died_;
    uint64_t started_ = 0;
};

}  // namespace rgpu::serverd
