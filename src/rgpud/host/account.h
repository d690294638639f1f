// SPDX-License-Identifier: Apache-2.0
// The accounts that workers run as.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "util/config.h"
#include "util/result.h"

namespace rgpu::serverd {

// Groups below 1000 that workers keep, where this host has them: device files and homes belong to
// them.
inline constexpr const char *kDeviceGroups[] = {"video", "render", "users"};

struct Account {
    uid_t uid = 0;
    gid_t gid = 0;
    std::vector<gid_t> groups;
    std::string name;
    bool pool = false;  // of [rgpud] worker_uids: no user of this host's
};

// The account of that name. Fails with `invalid` when there is none.
Result<Account> account_named(const std::string &name);
// rgpud's own.
Account own_account();

// As whom the workers of this owner run: the user himself, [rgpud] worker_user for root where it
// is set. Nothing: this host has no account for him.
std::optional<Account> worker_account(uid_t owner, const RgpudConfig &config);

}  // namespace rgpu::serverd
