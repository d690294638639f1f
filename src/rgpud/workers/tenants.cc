// SPDX-License-Identifier: Apache-2.0
#include "rgpud/workers/tenants.h"

#include <unistd.h>

#include <algorithm>

#include "rgpud/workers/limits.h"
#include "util/log.h"
#include "util/sha256.h"

namespace rgpu::serverd {

Tenants::Tenants(const RgpudConfig &config, std::shared_ptr<Spawner> spawner)
    : config_(config), spawner_(std::move(spawner))
{
    if (Result<UidRange> range = parse_uid_range(config.worker_uids)) {
        low_ = range->low;
        high_ = range->high;
    }
    last_ = high_;
}

// The owner is what rgpud knows of him, not what a request says: nobody joins another's job.
std::string Tenants::key_of(const pool::Lease &lease)
{
    const std::string text = lease.owner.job.empty()
                                 ? "lease " + lease.id
                                 : "job " + std::to_string(lease.owner.uid) + " " + lease.owner.job;
    Sha256 hash;
    hash.add(text.data(), text.size());
    const auto digest = hash.digest();
    return to_hex(digest.data(), digest.size());
}

Result<Account> Tenants::free_account()
{
    std::set<uid_t> taken = {geteuid()};
    for (const auto &[key, tenant] : tenants_) taken.insert(tenant.group.account.uid);
    // The one that rested longest: what is left of a tenant is seldom met.
    for (uid_t tried = low_; tried <= high_ && tried - low_ <= taken.size(); ++tried) {
        last_ = last_ >= high_ ? low_ : last_ + 1;
        if (taken.count(last_)) continue;
        Account account;
        account.uid = account.gid = last_;
        account.name = "rgpu-" + std::to_string(last_);
        account.pool = true;
        return account;
    }
    return error(ErrorKind::exhausted, "no user id of [rgpud] worker_uids = \"%s\" is free",
                 config_.worker_uids.c_str());
}

Result<Account> Tenants::account_of(const pool::Lease &lease)
{
    if (std::optional<Account> known = worker_account(lease.owner.uid, config_)) return *known;
    if (!spawner_) return own_account();
    return free_account();
}

Result<void> Tenants::adopt(const std::vector<pool::Lease> &leases)
{
    if (!spawner_) return {};
    Result<std::vector<Spawner::Found>> found = spawner_->list();
    if (!found) return std::move(found).error();
    for (const Spawner::Found &one : *found) {
        if (!one.name.empty()) continue;
        Tenant &tenant = tenants_[one.key];
        tenant.group.key = one.key;
        tenant.group.account.uid = one.uid;
    }
    for (const pool::Lease &lease : leases) {
        const auto there = tenants_.find(key_of(lease));
        if (there == tenants_.end()) continue;
        Account &account = there->second.group.account;
        if (std::optional<Account> known = worker_account(lease.owner.uid, config_);
            known && known->uid == account.uid) {
            account = *known;
        } else {
            account.gid = account.uid;
            account.name = "rgpu-" + std::to_string(account.uid);
            account.pool = true;
        }
        there->second.group.owner = lease.owner.uid;
        there->second.leases.insert(lease.id);
        keys_[lease.id] = there->first;
    }
    tend();
    return {};
}

Result<Group> Tenants::of(const pool::Lease &lease, const std::vector<std::string> &devices,
                          int workers)
{
    const std::string key = key_of(lease);
    auto there = tenants_.find(key);
    if (there == tenants_.end()) {
        Result<Account> account = account_of(lease);
        if (!account) return std::move(account).error();
        there =
            tenants_
                .emplace(key, Tenant{{key, std::move(*account), lease.owner.uid, {}, {}}, {}, {}})
                .first;
    }
    Tenant &tenant = there->second;
    tenant.leases.insert(lease.id);
    keys_[lease.id] = key;
    for (const std::string &name : devices)
        if (std::find(tenant.group.devices.begin(), tenant.group.devices.end(), name) ==
            tenant.group.devices.end())
            tenant.group.devices.push_back(name);
    if (Result<void> limited = limit(tenant, lease, workers); !limited)
        return std::move(limited).error();
    return tenant.group;
}

Result<void> Tenants::limit(Tenant &tenant, const pool::Lease &lease, int workers)
{
    Limits &own = tenant.limits[lease.id], fresh = limits_of(config_, lease, workers);
    fresh.pids = std::max(fresh.pids, own.pids);
    if (fresh == own) return {};
    own = fresh;
    tenant.group.limits = {};
    for (const auto &[id, limits] : tenant.limits)
        tenant.group.limits = both(tenant.group.limits, limits);
    return spawner_ ? spawner_->make(tenant.group) : Result<void>();
}

bool Tenants::gone(const std::string &lease)
{
    const auto key = keys_.find(lease);
    if (key == keys_.end()) return true;
    const auto tenant = tenants_.find(key->second);
    if (tenant != tenants_.end()) {
        tenant->second.leases.erase(lease);
        tenant->second.limits.erase(lease);
        if (tenant->second.leases.empty()) {
            if (spawner_ && !spawner_->end(tenant->first)) return false;
            tenants_.erase(tenant);
        }
    }
    keys_.erase(key);
    return true;
}

void Tenants::tend()
{
    std::erase_if(tenants_, [this](const auto &entry) {
        return entry.second.leases.empty() && (!spawner_ || spawner_->end(entry.first));
    });
}

}  // namespace rgpu::serverd
