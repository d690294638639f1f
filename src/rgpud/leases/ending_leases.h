// SPDX-License-Identifier: Apache-2.0
// Leases that have ended, and whose workers have not: until these are gone, the ledger keeps the
// GPUs from others, and whoever ended a lease may wait for them.
//
// Keeps ids only. Any thread may call. Its lock is taken behind every other, and none behind it.
// Nothing here fails.
#pragma once

#include <condition_variable>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "pool/messages/messages.h"
#include "util/clock.h"

namespace rgpu::serverd {

class EndingLeases {
public:
    void add(const std::string &lease);
    // Nothing of these lives any more. Others are ignored.
    void remove(const std::vector<std::string> &leases);
    // Returns when none of these leases is ending, or after `limit`. The caller holds no lock that
    // whoever calls remove() needs.
    void await(const std::vector<pool::Lease> &leases, Milliseconds limit);

private:
    std::mutex mutex_;
    std::condition_variable removed_;
    std::set<std::string> leases_;
};

}  // namespace rgpu::serverd
