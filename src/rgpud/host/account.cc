// SPDX-License-Identifier: Apache-2.0
#include "rgpud/host/account.h"

#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>

#include "util/defaults.h"

namespace rgpu::serverd {
namespace {

// What the spawner lets workers have: a host's own groups open more than files of users (disk,
// shadow).
bool may_have(gid_t group)
{
    return group >= defaults::kFirstUser ||
           std::any_of(std::begin(kDeviceGroups), std::end(kDeviceGroups), [&](const char *name) {
               const ::group *known = getgrnam(name);
               return known && known->gr_gid == group;
           });
}

// Runs a getpw*_r call; false when the account is not known.
bool look_up(Account &account, const std::function<int(passwd *, char *, size_t, passwd **)> &call)
{
    std::vector<char> buffer(16384);
    passwd entry, *found = nullptr;
    if (call(&entry, buffer.data(), buffer.size(), &found) != 0 || !found) return false;
    account.uid = entry.pw_uid;
    account.gid = entry.pw_gid;
    account.name = entry.pw_name;
    int count = 64;
    account.groups.resize(static_cast<size_t>(count));
    if (getgrouplist(entry.pw_name, entry.pw_gid, account.groups.data(), &count) < 0) {
        account.groups.resize(static_cast<size_t>(count));
        getgrouplist(entry.pw_name, entry.pw_gid, account.groups.data(), &count);
    }
    account.groups.resize(static_cast<size_t>(count));
    return true;
}

}  // namespace

Result<Account> account_named(const std::string &name)
{
    Account account;
    if (!look_up(account, [&](passwd *e, char *b, size_t n, passwd **f) {
            return getpwnam_r(name.c_str(), e, b, n, f);
        }))
        return error(ErrorKind::invalid, "there is no user \"%s\"", name.c_str());
    return account;
}

Account own_account()
{
    Account account;
    if (!look_up(account, [](passwd *e, char *b, size_t n, passwd **f) {
            return getpwuid_r(geteuid(), e, b, n, f);
        }))
        account.name = std::to_string(geteuid());
    account.uid = geteuid();
    account.gid = getegid();
    return account;
}

std::optional<Account> worker_account(uid_t owner, const RgpudConfig &config)
{
    Account account;
    if (owner == 0) {
        Result<Account> named = config.worker_user.empty()
                                    ? Result<Account>(error(ErrorKind::invalid, "none"))
                                    : account_named(config.worker_user);
        if (!named) return std::nullopt;
        account = std::move(*named);
    } else if (owner < defaults::kFirstUser ||
               !look_up(account, [&](passwd *e, char *b, size_t n, passwd **f) {
                   return getpwuid_r(owner, e, b, n, f);
               })) {
        return std::nullopt;
    }
    const gid_t own = account.gid;
    std::erase_if(account.groups, [&](gid_t group) { return group != own && !may_have(group); });
    if (owner != 0 && !may_have(own)) {
        std::erase(account.groups, own);
        account.gid = account.uid;
    }
    return account;
}

}  // namespace rgpu::serverd
