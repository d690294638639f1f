// SPDX-License-Identifier: Apache-2.0
#include "rgpud/leases/lending.h"

namespace rgpu::serverd {
namespace {

// Jobs whose epilog may still ask what became of their leases.
constexpr size_t kMostJobs = 4096;

Error not_admin() { return error(ErrorKind::invalid, "only root and [auth] admins lend GPUs"); }

}  // namespace

Lending::Lending(const RgpudConfig &config, const std::vector<pool::GpuState> &gpus, Time now)
{
    if (config.lend == "jobs") lends_.emplace(gpus, now);
}

Result<pool::Lease> Lending::lend(const pool::Caller &caller, const pool::Lend &lend, Time now)
{
    if (!caller.admin) return not_admin();
    if (!lends_)
        return error(ErrorKind::invalid, "all GPUs of this server are in the pool; set lend = "
                                         "\"jobs\" below [rgpud] in its rgpu.conf "
                                         "where they are to be lent");
    std::lock_guard lock(mutex_);
    return lends_->add(lend, now);
}

Result<void> Lending::withdraw(const pool::Caller &caller, const std::string &lend, Time now)
{
    if (!caller.admin) return not_admin();
    std::lock_guard lock(mutex_);
    if (!lends_ || !lends_->withdraw(lend, now))
        return error(ErrorKind::unsupported, "there is no lend %.8s here (any more)", lend.c_str());
    return {};
}

std::optional<std::string> Lending::secret(const std::string &lend) const
{
    std::lock_guard lock(mutex_);
    return lends_ ? lends_->secret(lend) : std::nullopt;
}

void Lending::held(const std::string &lend)
{
    std::lock_guard lock(mutex_);
    if (lends_) (void)lends_->held(lend);
}

bool Lending::lost(const std::string &lend, Time now)
{
    std::lock_guard lock(mutex_);
    return lends_ && lends_->lost(lend, now);
}

std::vector<pool::Lease> Lending::expire(Time now)
{
    std::lock_guard lock(mutex_);
    return lends_ ? lends_->expire(now) : std::vector<pool::Lease>();
}

std::set<std::string> Lending::lent() const
{
    std::lock_guard lock(mutex_);
    return lends_ ? lends_->lent() : std::set<std::string>();
}

std::vector<std::string> Lending::due(Time now) const
{
    std::lock_guard lock(mutex_);
    return lends_ ? lends_->due(now) : std::vector<std::string>();
}

void Lending::count(const std::vector<pool::Lease> &ended)
{
    std::lock_guard lock(mutex_);
    for (const pool::Lease &lease : ended)
        if (!lease.owner.job.empty() &&
            (ended_.size() < kMostJobs || ended_.count(lease.owner.job)))
            ++ended_[lease.owner.job];
}

int Lending::take_count(const std::string &job)
{
    std::lock_guard lock(mutex_);
    const auto ended = ended_.extract(job);
    return ended ? ended.mapped() : 0;
}

}  // namespace rgpu::serverd
