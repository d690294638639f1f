// SPDX-License-Identifier: Apache-2.0
// The workers of all leases: what a start of one needs, when one waits for the next program, and
// what the leases use.
//
// A lease has workers from open() to end(). Whoever starts one may be late: what start() finds of
// the lease decides, under the pool's lock, and so end() misses none.
//
// Any thread may call. The pool's lock is over the leases that it knows, tenants, memory files and
// meters. It is taken before those of Workers, WorkerLog, Boards and EnergyBook, and behind every
// lock of a caller's, as no call leads back to the caller. It is held while a process starts.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "pool/ledger/ledger.h"
#include "rgpud/host/boards.h"
#include "rgpud/host/driver.h"
#include "rgpud/host/topology.h"
#include "rgpud/workers/energy_division.h"
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

class WorkerPool {
public:
    // All must outlive it.
    WorkerPool(const RgpudConfig &config, const Driver &driver, const Boards &boards,
               const Topology &topology, EnergyBook &energy, std::shared_ptr<Spawner> spawner);

    // Opens these leases, and takes over the workers that an rgpud before this one started. Needed
    // once, first. Workers of other leases end: returns those, as if end() had said true of them.
    Result<std::vector<pool::Lease>> adopt(const std::vector<pool::Lease> &leases);

    // The lease may have workers from now on.
    void open(const pool::Lease &lease);
    // Pays now what its first program would have to wait for. Nothing where it has ended.
    void prepare(const std::string &lease);
    // Ends its workers. True: something of it lives yet, and tend() will say when it has gone.
    bool end(const pool::Lease &lease);

    // Makes sure that the lease can have another size, and that its workers take no more memory
    // than both sizes allow from here on, until set_size(). Waits for them, for well below a second
    // and without the lock. Fails with `exhausted` where more is in use, with the number, and with
    // `unavailable` where its workers cannot be told now; then it is as before.
    Result<void> prepare_size(const std::string &lease, const pool::Ledger::Sizes &sizes);
    // That is its size from here on, and its workers have been told. Fails with `unavailable`.
    Result<void> set_size(const std::string &lease, const std::vector<pool::Portion> &size);

    // Finds or starts a worker for a client that has proved that it holds the lease. Fails when the
    // lease has ended, has too many workers, or the program cannot be started. What it returns is
    // for wait_taken().
    Result<Fd> start(const std::string &lease, const Fd &socket, const Peer &peer);
    // Starts the worker that waits for the lease's next program.
    void start_next(const std::string &lease);
    // Gives a lane to the worker of that number (handover.h), of that lease. Fails as
    // Workers::give_lane() does.
    Result<void> give_lane(const std::string &lease, uint64_t worker, const Fd &lane)
    {
        return workers_.give_lane(lease, worker, lane);
    }

    // Reaps workers. Returns when it wants to be called again at the latest, and of which ended
    // leases nothing lives any more since the last call.
    struct Tended {
        Time next;
        std::vector<std::string> gone;
    };
    Tended tend();
    // Readable when it should be called at once.
    int ended_fd() const { return workers_.ended_fd(); }

    // What these ended leases used counts as it is now, also where a worker takes its time to end.
    void close_meters(const std::vector<pool::Lease> &leases);
    // What leases use that have not ended; of those that have since the last call, what they used.
    std::vector<pool::LeaseUsage> usage_of(const std::vector<pool::Lease> &leases);
    std::vector<pool::LeaseUsage> take_closed();
    // As Meters::look_at_use(), of all leases. Once in a while.
    void look_at_use();
    // As Meters::take().
    std::vector<pool::LeaseUsage> take_usage(const pool::Caller &caller,
                                             const pool::LeaseFilter &filter);

    // How a worker of the job died, which is forgotten here; empty: none did. A job that gets
    // another lease starts anew.
    std::string take_died(const std::string &job);

    // Workers that have a client, or had one.
    int count(const std::string &lease) const { return workers_.count(lease); }
    int count() const { return workers_.count(); }
    uint64_t started() const { return workers_.started(); }

private:
    struct Known {
        pool::Lease lease;
        bool ended = false;
        bool metered = true;  // its meter is open
    };

    Result<void> await_memory(const std::string &lease, const std::vector<pool::Portion> &size,
                              const std::vector<Fd> &told);
    Result<void> fits(const pool::Lease &lease, const std::vector<pool::Portion> &size,
                      bool with_credit);
    // With the lock held, as all that follow. Null where it has ended.
    const pool::Lease *find(const std::string &lease) const;
    Result<void> tell(const pool::Lease &lease) const;
    bool gone(const std::string &lease);
    void note_died();
    void collect_use();
    void collect_energy();
    std::vector<pool::Lease> metered() const;
    void close_meter(Known &known);
    Result<pool::Lease> seen_part(const pool::Lease &lease, const std::vector<int> &gpus,
                                  WorkerStart &start);
    Result<void> launch(const pool::Lease &whole, const pool::Lease &seen, const Fd &socket,
                        WorkerStart start, const std::string &who, Fd channel = {},
                        const std::optional<Digest> &key = {});
    WorkerLaunch worker_launch(const pool::Lease &lease, const Account &account,
                               WorkerStart start) const;
    std::vector<std::string> devices_of(const pool::Lease &lease) const;
    void warm_up(const pool::Lease &lease);
    void start_waiting_worker(const pool::Lease &lease);

    const RgpudConfig &config_;
    const Driver &driver_;
    const Boards &boards_;
    const Topology &topology_;
    mutable std::mutex mutex_;
    std::map<std::string, Known> leases_;
    std::map<std::string, std::string> died_;  // by job: how a worker of it died
    WorkerLog log_;
    Workers workers_;
    Tenants tenants_;
    MemoryFiles memory_;
    Meters meters_;
    EnergyDivision energy_;
    Time energy_looked_at_{};
};

}  // namespace rgpu::serverd
