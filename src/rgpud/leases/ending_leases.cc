// SPDX-License-Identifier: Apache-2.0
#include "rgpud/leases/ending_leases.h"

#include <algorithm>

namespace rgpu::serverd {

void EndingLeases::add(const std::string &lease)
{
    std::lock_guard lock(mutex_);
    leases_.insert(lease);
}

void EndingLeases::remove(const std::vector<std::string> &leases)
{
    if (leases.empty()) return;
    std::lock_guard lock(mutex_);
    for (const std::string &lease : leases) leases_.erase(lease);
    removed_.notify_all();
}

void EndingLeases::await(const std::vector<pool::Lease> &leases, Milliseconds limit)
{
    std::unique_lock lock(mutex_);
    removed_.wait_for(lock, limit, [&] {
        return std::none_of(leases.begin(), leases.end(),
                            [this](const pool::Lease &lease) { return leases_.count(lease.id); });
    });
}

}  // namespace rgpu::serverd
