// SPDX-License-Identifier: Apache-2.0
#include "rgpud/host/energy_book.h"

#include <algorithm>
#include <chrono>

namespace rgpu::serverd {
namespace {

double seconds(Time from, Time to) { return std::chrono::duration<double>(to - from).count(); }

}  // namespace

void EnergyBook::sample(const std::string &uuid, Time at, uint64_t millijoules)
{
    const double counter = static_cast<double>(millijoules) / 1000;
    std::lock_guard lock(mutex_);
    const auto [known, fresh] = gpus_.try_emplace(uuid);
    Gpu &gpu = known->second;
    const double passed = fresh ? 0 : seconds(gpu.at, at);
    if (fresh || counter < gpu.counter || counter - gpu.counter > kMostWatts * (passed + 1)) {
        gpu = {at, counter, 0, counter};
        return;
    }
    if (passed > 0) gpu.watts = (counter - gpu.counter) / passed;
    gpu.at = at;
    gpu.counter = counter;
}

double EnergyBook::spend(const std::string &uuid, Time at)
{
    std::lock_guard lock(mutex_);
    const auto known = gpus_.find(uuid);
    if (known == gpus_.end()) return 0;
    Gpu &gpu = known->second;
    const double carried =
        std::clamp(seconds(gpu.at, at), 0.0, std::chrono::duration<double>(kCarried).count());
    const double until = gpu.counter + gpu.watts * carried;
    const double joules = std::max(0.0, until - gpu.spent);
    gpu.spent += joules;
    return joules;
}

bool EnergyBook::knows(const std::string &uuid) const
{
    std::lock_guard lock(mutex_);
    return gpus_.count(uuid) != 0;
}

std::map<std::string, double> EnergyBook::counters() const
{
    std::lock_guard lock(mutex_);
    std::map<std::string, double> all;
    for (const auto &[uuid, gpu] : gpus_) all[uuid] = gpu.counter;
    return all;
}

std::vector<double> divide_energy(double joules, const std::vector<EnergyUse> &uses)
{
    const auto busy_of = [](const EnergyUse &use) {
        return static_cast<double>(std::max<int64_t>(use.busy, 0));
    };
    double busy = 0, shares = 0;
    for (const EnergyUse &use : uses) {
        busy += busy_of(use);
        shares += use.share;
    }
    std::vector<double> parts;
    for (const EnergyUse &use : uses)
        parts.push_back(joules * (busy > 0     ? busy_of(use) / busy
                                  : shares > 0 ? use.share / shares
                                               : 1.0 / static_cast<double>(uses.size())));
    return parts;
}

}  // namespace rgpu::serverd
