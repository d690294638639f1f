// SPDX-License-Identifier: Apache-2.0
// Which GPUs of a host that has work of its own are the pool's now: [rgpud] lend = "jobs" and `rgpu
// lend`.
//
// A GPU is lent as long as a connection holds its lend. When that ends, nothing more of the GPU is
// offered, and after the lend's grace its leases end. What is lent is kept in memory only: after a
// start whoever lends says so again, and until defaults::kLendReturn has passed the leases on its
// GPUs stay.
//
// No clock but the `now` it is given, no threads: the caller locks.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "pool/messages/messages.h"
#include "util/clock.h"
#include "util/defaults.h"
#include "util/result.h"

namespace rgpu::serverd {

class Lends {
public:
    // Of these GPUs (UUIDs), none of which is lent yet.
    Lends(const std::vector<pool::GpuState> &gpus, Time now);

    // Lends the GPUs until withdraw(), or until kHolderGrace has passed in which nobody held it.
    // Returns it as a lease with id and secret. Fails with `invalid` where a GPU is not there, and
    // with `unavailable` where another lends it; the same owner's lend of it is replaced.
    Result<pool::Lease> add(const pool::Lend &lend, Time now);
    // Its leases are due after its grace. False: there is none.
    bool withdraw(const std::string &id, Time now);

    // Of a lend that somebody may hold.
    std::optional<std::string> secret(const std::string &id) const;
    // The connection that holds it is there, is gone. Who has lost it has kHolderGrace, at most the
    // lend's own, to come back with a new one. False: there is no such lend.
    bool held(const std::string &id);
    bool lost(const std::string &id, Time now);

    // Withdraws what nobody came to hold; returns the lends that ended so.
    std::vector<pool::Lease> expire(Time now);
    std::set<std::string> lent() const;
    // GPUs that are not lent, and whose leases have had their time.
    std::vector<std::string> due(Time now) const;

private:
    struct Given {
        pool::Lease lease;
        Milliseconds grace;
        Time expires;  // kNever: it is held
    };
    using All = std::map<std::string, Given>;

    Result<std::vector<pool::Portion>> find(const std::vector<std::string> &names) const;
    void end(All::iterator given, Milliseconds grace, Time now);

    std::vector<pool::GpuState> gpus_;  // in the order of the PCI bus
    All lends_;
    std::map<std::string, Time> due_;  // each GPU that is not lent
};

}  // namespace rgpu::serverd
