// SPDX-License-Identifier: Apache-2.0
// The meters of leases (serverd/meter.h): made with a lease, handed to its workers, read when it
// ends.
//
// They lie in /dev/shm: a page of a file on a disk keeps who writes to it waiting while it goes
// there, and so launches. With the host's restart they are gone, as the programs are. Beside each
// lies a record that workers do not have: when the lease was granted, how long it had its GPUs, as
// the scheduler says, and the energy.
//
// What an ended lease of a job used is kept for the job's epilog to fetch, some of them and for a
// while: a lease can end without it.
#pragma once

#include <deque>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "pool/ledger/ledger.h"
#include "rgpud/host/boards.h"
#include "rgpud/workers/energy_division.h"
#include "util/fd.h"
#include "util/result.h"

namespace rgpu::serverd {

class Meters {
public:
    Meters() = default;
    Meters(const Meters &) = delete;
    // The directory goes with the last meter.
    ~Meters();
    // Makes the directory, closed to all but rgpud. The next rgpud of this state_dir finds it.
    Result<void> open(const std::string &state_dir);

    // The lease's meter, made if it is not there.
    Result<Fd> file(const pool::Lease &lease) const;
    // GPU time that these leases had since the last time.
    void add_busy(const std::vector<Boards::Busy> &busy,
                  const std::vector<pool::Lease> &leases) const;
    // Joules that parts of these leases had.
    void add_energy(const std::vector<EnergyDivision::Part> &parts,
                    const std::vector<pool::Lease> &leases) const;
    // What a lease that has its meter uses, until now.
    pool::LeaseUsage read(const pool::Lease &lease) const;
    // A lease counts as used now where this many bytes went over the network since the last look.
    static constexpr uint64_t kUse = 1 << 20;
    // Looks at the bytes of these, so that those that do nothing but copies count as used.
    void look_at_use(const std::vector<pool::Lease> &leases) const;
    // The lease has ended: what it used is kept, and its meter goes.
    void close(const pool::Lease &lease);
    // What leases used that were closed since the last call, those outside Slurm, too: for the
    // store.
    std::vector<pool::LeaseUsage> take_closed() { return std::exchange(unsaved_, {}); }
    // What closed leases that the filter fits used, if the caller may know; it is forgotten here.
    std::vector<pool::LeaseUsage> take(const pool::Caller &caller, const pool::LeaseFilter &filter);

    // Forgets all meters but these: an rgpud before this one may have died before it did.
    void forget_all_but(const std::set<std::string> &leases) const;

private:
    std::string path(const std::string &lease) const { return directory_ + "/" + lease; }
    std::string record_path(const std::string &lease) const;
    Result<Fd> record(const pool::Lease &lease) const;

    struct Closed {
        pool::LeaseUsage usage;
        Time at;
    };
    std::string directory_;
    std::deque<Closed> closed_;  // the oldest first
    std::vector<pool::LeaseUsage> unsaved_;
};

}  // namespace rgpu::serverd
