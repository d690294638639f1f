// SPDX-License-Identifier: Apache-2.0
#include "rgpud/workers/energy_division.h"

#include <algorithm>

namespace rgpu::serverd {

bool EnergyDivision::knows(const pool::Lease &lease) const
{
    return std::any_of(lease.gpus.begin(), lease.gpus.end(),
                       [&](const pool::Portion &portion) { return book_.knows(portion.uuid); });
}

void EnergyDivision::add(const std::vector<Boards::Busy> &busy)
{
    for (const Boards::Busy &one : busy) busy_[{one.uuid, one.lease}] += one.nanoseconds;
}

void EnergyDivision::begin(const pool::Lease &lease, Time now)
{
    for (const pool::Portion &portion : lease.gpus) (void)book_.spend(portion.uuid, now);
}

std::vector<EnergyDivision::Part> EnergyDivision::divide(const std::vector<pool::Lease> &leases,
                                                         Time now)
{
    struct Tenants {
        std::vector<EnergyUse> uses;
        std::vector<Part> parts;
    };
    std::map<std::string, Tenants> gpus;
    for (const pool::Lease &lease : leases)
        for (size_t i = 0; i < lease.gpus.size(); ++i) {
            const pool::Portion &portion = lease.gpus[i];
            if (!book_.knows(portion.uuid)) continue;
            const auto busy = busy_.find({portion.uuid, lease.id});
            Tenants &tenants = gpus[portion.uuid];
            tenants.uses.push_back({busy == busy_.end() ? 0 : busy->second, portion.share});
            tenants.parts.push_back({lease.id, i, 0});
        }
    busy_.clear();
    std::vector<Part> all;
    for (auto &[uuid, tenants] : gpus) {
        const std::vector<double> joules = divide_energy(book_.spend(uuid, now), tenants.uses);
        for (size_t i = 0; i < joules.size(); ++i) {
            tenants.parts[i].joules = joules[i];
            all.push_back(std::move(tenants.parts[i]));
        }
    }
    return all;
}

}  // namespace rgpu::serverd
