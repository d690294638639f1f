// As whom a worker runs.
//
// A worker runs as its lease's owner. Where the owner is root, or this host does not know the uid,
// it runs as [rgpud] worker_user. An rgpud that is not root cannot change: its workers are its own user.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "util/config.h"
#include "util/result.h"

namespace rgpu::serverd {

struct Account {
    uid_t uid = 0;
    gid_t gid = 0;
    std::vector<gid_t> groups;
    std::string name;
    bool change = false;  // rgpud is root and takes this identity on; else nothing is to be done
};

// The account of that name. Fails with `invalid` when there is none.
Result<Account> account_named(const std::string &name);

// As whom the workers of this owner run.
Result<Account> worker_account(uid_t owner, const RgpudConfig &config);

// Between fork and exec only: gives up every right that the account does not have. Async-signal-safe.
bool become(const Account &account);

}  // namespace rgpu::serverd
