// As whom a worker runs.
//
// A worker runs as its lease's owner. Where the owner is root, or this host does not know the uid,
// it runs as [rgpud] worker_user. An rgpud that is not root cannot change: its workers are its own user.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>

#include "serverd/identity.h"
#include "util/config.h"
#include "util/result.h"

namespace rgpu::serverd {

struct Account : Identity {
    std::string name;
    bool change = false;  // rgpud is root and takes this identity on; else nothing is to be done
};

// The account of that name. Fails with `invalid` when there is none.
Result<Account> account_named(const std::string &name);

// As whom the workers of this owner run.
Result<Account> worker_account(uid_t owner, const RgpudConfig &config);

// The same of leases: looked up for a lease's first worker, as a directory server may be slow, and groups are what they were when a job began.
class Accounts {
public:
    Result<Account> of(const std::string &lease, uid_t owner, const RgpudConfig &config);
    void forget(const std::string &lease) { known_.erase(lease); }

private:
    std::map<std::string, Account> known_;
};

}  // namespace rgpu::serverd
