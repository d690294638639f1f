// SPDX-License-Identifier: Apache-2.0
#include "rgpud/leases/lends.h"

#include <algorithm>
#include <ctime>

namespace rgpu::serverd {
namespace {

// Of the first list, what is in the second, too.
const pool::Portion *first_in(const std::vector<pool::Portion> &list,
                              const std::vector<pool::Portion> &other)
{
    for (const pool::Portion &one : list)
        for (const pool::Portion &two : other)
            if (one.uuid == two.uuid) return &one;
    return nullptr;
}

}  // namespace

Lends::Lends(const std::vector<pool::GpuState> &gpus, Time now) : gpus_(gpus)
{
    std::stable_sort(gpus_.begin(), gpus_.end(),
                     [](const auto &a, const auto &b) { return a.pci < b.pci; });
    for (const pool::GpuState &gpu : gpus_) due_[gpu.uuid] = now + defaults::kLendReturn;
}

Result<std::vector<pool::Portion>> Lends::find(const std::vector<std::string> &names) const
{
    std::vector<pool::Portion> found;
    for (const std::string &name : names) {
        size_t place = 0;
        while (place < gpus_.size() && name != gpus_[place].uuid && name != std::to_string(place))
            ++place;
        if (place == gpus_.size())
            return error(ErrorKind::invalid,
                         "this server has no GPU %s; it has %zu, 0 the first, and rgpu list --json "
                         "shows their UUIDs",
                         name.c_str(), gpus_.size());
        const pool::GpuState &gpu = gpus_[place];
        if (std::none_of(found.begin(), found.end(),
                         [&](const pool::Portion &other) { return other.uuid == gpu.uuid; }))
            found.push_back({gpu.index, gpu.uuid, gpu.name, kWholeGpu, gpu.memory, kWholeGpu});
    }
    return found;
}

Result<pool::Lease> Lends::add(const pool::Lend &lend, Time now)
{
    Result<std::vector<pool::Portion>> gpus = find(lend.gpus);
    if (!gpus) return std::move(gpus).error();
    std::vector<All::iterator> before;
    for (auto given = lends_.begin(); given != lends_.end(); ++given) {
        const pool::Portion *shared = first_in(given->second.lease.gpus, *gpus);
        if (!shared) continue;
        if (to_text(given->second.lease.owner) != to_text(lend.owner))
            return error(ErrorKind::unavailable, "GPU %d is lent already, by %s", shared->index,
                         to_text(given->second.lease.owner).c_str());
        before.push_back(given);
    }
    for (auto given : before) end(given, given->second.grace, now);
    Given given{{}, lend.grace, now + defaults::kHolderGrace};
    given.lease.id = pool::random_id();
    given.lease.secret = pool::random_secret();
    given.lease.owner = lend.owner;
    given.lease.gpus = std::move(*gpus);
    given.lease.granted_at = time(nullptr);
    for (const pool::Portion &gpu : given.lease.gpus) due_.erase(gpu.uuid);
    pool::Lease lease = given.lease;
    lends_[lease.id] = std::move(given);
    return lease;
}

void Lends::end(All::iterator given, Milliseconds grace, Time now)
{
    for (const pool::Portion &gpu : given->second.lease.gpus) due_[gpu.uuid] = now + grace;
    lends_.erase(given);
}

bool Lends::withdraw(const std::string &id, Time now)
{
    auto given = lends_.find(id);
    if (given == lends_.end()) return false;
    end(given, given->second.grace, now);
    return true;
}

std::optional<std::string> Lends::secret(const std::string &id) const
{
    auto given = lends_.find(id);
    return given == lends_.end() ? std::nullopt : std::optional(given->second.lease.secret);
}

bool Lends::held(const std::string &id)
{
    auto given = lends_.find(id);
    if (given == lends_.end()) return false;
    given->second.expires = kNever;
    return true;
}

bool Lends::lost(const std::string &id, Time now)
{
    auto given = lends_.find(id);
    if (given == lends_.end()) return false;
    end(given, std::min(given->second.grace, defaults::kHolderGrace), now);
    return true;
}

std::vector<pool::Lease> Lends::expire(Time now)
{
    std::vector<pool::Lease> ended;
    for (auto given = lends_.begin(); given != lends_.end();) {
        auto next = std::next(given);
        if (given->second.expires <= now) {
            ended.push_back(given->second.lease);
            end(given, Milliseconds(0), now);
        }
        given = next;
    }
    return ended;
}

std::set<std::string> Lends::lent() const
{
    std::set<std::string> gpus;
    for (const auto &[id, given] : lends_)
        for (const pool::Portion &gpu : given.lease.gpus) gpus.insert(gpu.uuid);
    return gpus;
}

std::vector<std::string> Lends::due(Time now) const
{
    std::vector<std::string> gpus;
    for (const auto &[gpu, time] : due_)
        if (time <= now) gpus.push_back(gpu);
    return gpus;
}

}  // namespace rgpu::serverd
