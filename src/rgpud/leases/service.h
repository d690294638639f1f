// SPDX-License-Identifier: Apache-2.0
// What rgpud does, without its ports: keeps the ledger, the lends and the workers in step.
//
// Owns all of them but the store, and what the host is like (driver, boards, topology), which does
// not change. The ports, the watches and main() share one Service, which outlives their threads.
//
// Any thread may call. The lock here is over the ledger and the host's health. It is taken before
// that of Lending, that of WorkerPool and that of EndingLeases, no two of which are held together.
// A change that concerns two parts is made under it, but for the start of a process: that holds the
// pool's lock alone. So an offer waits for a start only where a lease has expired, whose workers
// must end first. Nothing here waits for a worker's end under the lock.
//
// Every change is one line in the log. What fails has changed nothing, but release_job(): leases
// that it ended before the store failed have ended. `invalid` is what the caller may not ask or has
// got wrong, `unsupported` what is not there, `exhausted` and `unavailable` what may go later; the
// ports tell that as it is. What nobody asked for (expiry, withdrawal, the end of a job) is tried
// again where the store fails.
#pragma once

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
#include "rgpud/host/energy_book.h"
#include "rgpud/host/topology.h"
#include "rgpud/leases/audit.h"
#include "rgpud/leases/ending_leases.h"
#include "rgpud/leases/lending.h"
#include "rgpud/leases/usage_store.h"
#include "rgpud/workers/worker_pool.h"
#include "util/config.h"
#include "util/fd.h"

namespace rgpu::serverd {

class Service {
public:
    // Store and audit must outlive the service.
    Service(const RgpudConfig &config, Driver driver, Boards boards, pool::LeaseStore &store,
            Topology topology, std::shared_ptr<Spawner> spawner, Audit &audit);
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
    // Another size for a lease whose programs run; with Resize::hold it is only made sure that it
    // can have it, and end_resize() keeps or undoes that within defaults::kHeldSize. Waits for the
    // lease's workers, for well below a second. As WorkerPool::prepare_size() and
    // Ledger::begin_resize() fail.
    Result<pool::Lease> resize(const pool::Caller &caller, const std::string &lease,
                               const pool::Resize &resize);
    Result<pool::Lease> end_resize(const pool::Caller &caller, const std::string &lease, bool keep);
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

    // What leases use that are held, of a job or (empty) of all, if the caller may see them. Of a
    // job also what those used that ended within a month.
    pool::Usages usages(const pool::Caller &caller, const std::string &job);

    // How the tenants of each GPU stand. Whose a lease is, is told to those who may see it.
    pool::Sharing sharing(const pool::Caller &caller);
    std::vector<Boards::Gpu> boards() const { return boards_.view(); }

    const Driver &driver() const { return driver_; }
    // What the health checks found. With a reason nothing is lent, until this is called without
    // one.
    void set_health(std::vector<pool::Finding> findings, std::string closed);
    // What NVML said at that look, by UUID; -1: it does not tell.
    struct Gauge {
        int temperature = -1;  // degrees Celsius
        int power = -1;        // milliwatts
    };
    void set_gauges(std::map<std::string, Gauge> gauges);
    // Whoever reads the GPUs' energy counters writes them here.
    EnergyBook &energy() { return energy_; }
    pool::Health health() const;
    pool::Topology topology() const;

    // The secret of a lease, or a lend, that may connect now.
    std::optional<std::string> secret(const std::string &lease);

    // The Slurm jobs that hold leases here, and the end of one that Slurm does not know any more.
    std::set<std::string> jobs();
    void job_gone(const std::string &job);
    // Those of them that Slurm did not know at the last question.
    void jobs_missing(std::set<std::string> jobs);

    // The connection of whoever holds the lease, or the lend, is there; has closed.
    void holder_here(const std::string &lease);
    void holder_gone(const std::string &lease);

    // As WorkerPool::start(). What it returns is for start_next().
    Result<Fd> start_worker(const std::string &lease, Fd socket, const Peer &peer);
    // Starts the worker that waits for the lease's next program, when the one before lets it:
    // returns within a fifth of a second.
    void start_next(const std::string &lease, Fd taken);
    Result<void> give_lane(const std::string &lease, uint64_t worker, const Fd &lane)
    {
        return pool_.give_lane(lease, worker, lane);
    }

    // Ends what has expired, reaps workers. Returns when it wants to be called again at the latest.
    Time tend();
    // Readable when it should be called at once.
    int ended_fd() const { return pool_.ended_fd(); }

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

    // All that Prometheus sees of it.
    struct Status {
        std::string server;
        std::string driver;  // its release; empty: not known
        Count count;
        std::vector<pool::GpuState> gpus;
        std::map<std::string, Gauge> gauges;
        std::map<std::string, double> energy;  // joules, by UUID: the counters
        std::vector<pool::Finding> findings;
        double health_age_s = -1;  // since the last look; -1: there was none
        std::vector<pool::Lease> leases;
        int leases_without_job = -1;           // -1: Slurm is not asked
        uint64_t disk_free = 0, disk_all = 0;  // bytes of state_dir's file system; 0: not known
    };
    Status status();

private:
    Result<void> find_gpu(const pool::Caller &caller, pool::Drain &drain) const;
    void end_what_has_expired();
    // Without the lock.
    void undo_old_sizes();
    // With the lock held, as all that follow.
    // `caller`: whoever asked for that, if anybody did.
    void ended(const std::vector<pool::Lease> &leases, const char *how,
               const pool::Caller *caller = nullptr);
    void keep(const pool::Lease &lease);
    Time end_expired();
    void end_withdrawn(Time time);
    void offer_lent();
    void keep_usage();

    const RgpudConfig config_;
    Audit &audit_;
    const Driver driver_;
    const Boards boards_;
    const Topology topology_;
    int data_port_ = 0;
    mutable std::mutex mutex_;
    pool::Ledger ledger_;
    Lending lending_;
    EnergyBook energy_;
    WorkerPool pool_;
    EndingLeases ending_;
    uint64_t leases_granted_ = 0;
    std::map<std::string, Time> held_sizes_;  // by lease: until when they are to be kept or undone
    std::vector<pool::Finding> findings_;
    Time looked_at_ = kNever;  // at the host's health
    std::map<std::string, Gauge> gauges_;
    std::optional<std::set<std::string>> missing_;
    std::unique_ptr<UsageStore> usage_;  // null: it cannot be used
    Time use_looked_at_{};
};

}  // namespace rgpu::serverd
