// SPDX-License-Identifier: Apache-2.0
// As whom workers run, and what those of one job share.
//
// A tenant is a job of an owner on this server; a lease without a job is its own. Where its owner
// is a user of this host its workers run as that user. Else the tenant gets a user id of [rgpud]
// worker_uids, which is nobody else's while anything of it lives. An rgpud that is not root, and
// has no spawner, cannot change: its workers are its own user. Not for several threads.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>

#include "pool/messages/messages.h"
#include "rgpud/workers/spawner.h"

namespace rgpu::serverd {

class Tenants {
public:
    Tenants(const RgpudConfig &config, std::shared_ptr<Spawner> spawner);

    // What an earlier rgpud left at the spawner: those of these leases go on, others end.
    Result<void> adopt(const std::vector<pool::Lease> &leases);

    // The lease's tenant, with these devices beside those that it has, and room for so many workers
    // of this lease; never less than before. The account is looked up for its first lease only, as
    // a directory server may be slow, and groups are what they were then.
    Result<Group> of(const pool::Lease &lease, const std::vector<std::string> &devices,
                     int workers);
    // The lease has ended, and its workers have. False: something of its tenant still lives; to be
    // asked again.
    bool gone(const std::string &lease);
    // Tries again to end what nobody holds.
    void tend();

    static std::string key_of(const pool::Lease &lease);
    const std::shared_ptr<Spawner> &spawner() const { return spawner_; }

private:
    struct Tenant {
        Group group;
        std::set<std::string> leases;
        std::map<std::string, Limits> limits;  // of each lease
    };
    Result<Account> account_of(const pool::Lease &lease);
    Result<void> limit(Tenant &tenant, const pool::Lease &lease, int workers);
    Result<Account> free_account();

    const RgpudConfig config_;
    const std::shared_ptr<Spawner> spawner_;
    uid_t low_ = 0, high_ = 0, last_ = 0;      // of worker_uids
    std::map<std::string, Tenant> tenants_;    // by key; without leases: ending
    std::map<std::string, std::string> keys_;  // by lease
};

}  // namespace rgpu::serverd
