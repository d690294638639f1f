// What rgpud does, without its ports: the ledger and the workers together, under one lock.
//
// Any thread may call. Every change is one line in the log.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "pool/ledger/ledger.h"
#include "rgpud/host/boards.h"
#include "rgpud/host/driver.h"
#include "rgpud/host/topology.h"
#include "rgpud/leases/lends.h"
#include "rgpud/workers/memory_files.h"
#include "rgpud/workers/meters.h"
#include "rgpud/workers/tenants.h"
#include "rgpud/workers/worker_log.h"
#include "rgpud/workers/workers.h"
#include "util/config.h"
#include "util/fd.h"
#include "util/sha256.h"

namespace rgpu::serverd {

// The program at the other end of a data connection, as it says itself.
struct Peer {
    std::string who;             // for the log
    uint64_t table_digest = 0;   // of its call table
    std::optional<Digest> key;   // of the tunnel that the worker is to open
    std::vector<int> gpus = {};  // places in the lease of those that it wants to see; empty: all
};

class Service {
public:
    // The store must outlive the service.
    Service(const RgpudConfig &config, Driver driver, Boards boards, pool::LeaseStore &store,
            Topology topology, std::shared_ptr<Spawner> spawner);
    // Takes what the store knows, and the workers that an rgpud before this one started.
    Result<void> load();

    // The port that programs connect to, once it is known.
    void set_data_port(int port) { data_port_ = port; }
    int data_port() const { return data_port_; }

    // As pool::Ledger, with the clock filled in and the workers of ended leases ended.
    Result<pool::Offer> offer(const pool::Caller &caller, const pool::Request &request);
    Result<pool::Lease> accept(const pool::Caller &caller, const std::string &offer, int gpus = 0);
    Result<void> reject(const pool::Caller &caller, const std::string &offer);
    Result<pool::Lease> renew(const pool::Caller &caller, const std::string &lease);
    // These wait a moment for the workers, so that the GPUs are free when they return; a worker
    // that takes its time is waited for by tend().
    Result<void> release(const pool::Caller &caller, const std::string &lease);
    Result<pool::Released> release_job(const pool::Caller &caller, const pool::LeaseFilter &filter);
    // Administrators only. A GPU is named by its UUID or its number; empty: all of the server.
    Result<void> drain(const pool::Caller &caller, pool::Drain drain);
    Result<void> resume(const pool::Caller &caller, pool::Drain drain);
    // Administrators only, and where [rgpud] lend says so. The lend as a lease with its secret:
    // whoever connects to hold it keeps the GPUs in the pool.
    Result<pool::Lease> lend(const pool::Caller &caller, const pool::Lend &lend);
    Result<void> withdraw(const pool::Caller &caller, const std::string &lend);
    std::vector<pool::Lease> leases(const pool::Caller &caller, const pool::LeaseFilter &filter);
    pool::Inventory inventory(const pool::Caller &caller);

    // How the tenants of each GPU stand. Whose a lease is, is told to those who may see it.
    pool::Sharing sharing(const pool::Caller &caller);
    std::vector<Boards::Gpu> boards() const { return boards_.view(); }

    const Driver &driver() const { return driver_; }
    // What the health checks found. With a reason nothing is lent, until this is called without
    // one.
    void set_health(std::vector<pool::Finding> findings, std::string closed);
    pool::Health health() const;
    pool::Topology topology() const;

    // The secret of a lease, or a lend, that may connect now.
    std::optional<std::string> secret(const std::string &lease);

    // The Slurm jobs that hold leases here, and the end of one that Slurm does not know any more.
    std::set<std::string> jobs();
    void job_gone(const std::string &job);

    // The connection of whoever holds the lease, or the lend, is there; has closed.
    void holder_here(const std::string &lease);
    void holder_gone(const std::string &lease);

    // Finds or starts a worker for a client that has proved that it holds the lease. Fails when the
    // lease has ended meanwhile, has too many workers, or the program cannot be started. What it
    // returns is for start_next().
    Result<Fd> start_worker(const std::string &lease, Fd socket, const Peer &peer);
    // Starts the worker that waits for the lease's next program, when the one before lets it:
    // returns within a fifth of a second.
    void start_next(const std::string &lease, Fd taken);

    // Gives a lane to the worker of that number (handover.h), of that lease. Fails as
    // Workers::give_lane() does.
    Result<void> give_lane(const std::string &lease, uint64_t worker, const Fd &lane)
    {
        return workers_.give_lane(lease, worker, lane);
    }

    // Ends what has expired, reaps workers. Returns when it wants to be called again at the latest.
    Time tend();
    // Readable when it should be called at once.
    int ended_fd() const { return workers_.ended_fd(); }

    struct Count {
        int gpus = 0;
        int64_t share_free = 0;  // hundredths
        size_t offers = 0, leases = 0;
        int workers = 0;
        uint64_t workers_started = 0, leases_granted = 0;
        std::map<std::string, int>
            checks;  // how many health checks ended so the last time, by PASS, FATAL ...
    };
    Count count() const;

private:
    void ended(const std::vector<pool::Lease> &leases, const char *how);
    Result<void> find_gpu(const pool::Caller &caller, pool::Drain &drain) const;
    void end_workers(const pool::Lease &lease);
    void close_meter(const pool::Lease &lease);
    void collect_busy(const pool::Lease *ended);
    void await_workers(std::unique_lock<std::mutex> &lock, const std::vector<pool::Lease> &leases);
    Time end_expired();
    void end_withdrawn(Time time);
    void note_died();
    void offer_lent();
    Result<void> launch_worker(const pool::Lease &lease, const Fd &socket, WorkerStart start,
                               const std::string &who, Fd channel = {},
                               const std::optional<Digest> &key = {});
    WorkerLaunch worker_launch(const pool::Lease &lease, const Account &account,
                               WorkerStart start) const;
    std::vector<std::string> devices_of(const pool::Lease &lease) const;
    Result<pool::Lease> seen_part(const pool::Lease &lease, const std::vector<int> &gpus,
                                  WorkerStart &start);
    void warm_up(const pool::Lease &lease);
    void start_waiting_worker(const pool::Lease &lease);

    const RgpudConfig config_;
    const Driver driver_;
    const Boards boards_;
    const Topology topology_;
    int data_port_ = 0;
    mutable std::mutex mutex_;  // of the ledger, and of starting a worker against ending its lease
    pool::Ledger ledger_;
    WorkerLog log_;
    Workers workers_;
    Tenants tenants_;
    MemoryFiles memory_;
    Meters meters_;
    std::vector<std::string> ending_;  // leases that have ended, and whose workers have not yet
    std::optional<Lends> lends_;       // with [rgpud] lend = "jobs"
    std::map<std::string, int>
        withdrawn_;  // by job: leases that ended with a lend, until its epilog asks
    std::map<std::string, std::string> died_;    // by job: how a worker of it died, likewise
    std::map<std::string, pool::Lease> unread_;  // of them, those whose meters are open
    std::condition_variable workers_ended_;
    uint64_t leases_granted_ = 0;
    std::vector<pool::Finding> findings_;
    Time looked_at_ = kNever;  // at the host's health
};

}  // namespace rgpu::serverd
