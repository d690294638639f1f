// SPDX-License-Identifier: Apache-2.0
// Who lends GPUs of this host to the pool ([rgpud] lend = "jobs"), and how many leases of which job
// ended with a lend.
//
// Any thread may call. Its lock is over both, and no other lock is taken behind it. Whoever changes
// the lends then tells the ledger lent(), under the ledger's lock: so the last to do so tells all.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "pool/ledger/ledger.h"
#include "rgpud/leases/lends.h"
#include "util/config.h"

namespace rgpu::serverd {

class Lending {
public:
    // Without lend = "jobs" all GPUs are in the pool, and nobody lends any.
    Lending(const RgpudConfig &config, const std::vector<pool::GpuState> &gpus, Time now);
    explicit operator bool() const { return lends_.has_value(); }

    // Administrators only. Otherwise as Lends::add(), and as its withdraw(), which fails with
    // `unsupported` where there is no such lend.
    Result<pool::Lease> lend(const pool::Caller &caller, const pool::Lend &lend, Time now);
    Result<void> withdraw(const pool::Caller &caller, const std::string &lend, Time now);

    // As those of Lends.
    std::optional<std::string> secret(const std::string &lend) const;
    void held(const std::string &lend);
    bool lost(const std::string &lend, Time now);
    std::vector<pool::Lease> expire(Time now);
    std::set<std::string> lent() const;
    std::vector<std::string> due(Time now) const;

    // These leases ended with a lend.
    void count(const std::vector<pool::Lease> &ended);
    // How many of the job's did; they are forgotten here. None do of a job that gets another.
    int take_count(const std::string &job);

private:
    mutable std::mutex mutex_;
    std::optional<Lends> lends_;
    std::map<std::string, int> ended_;  // by job, until its epilog asks
};

}  // namespace rgpu::serverd
