#include "serverd/rgpud/account.h"

#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <functional>

namespace rgpu::serverd {
namespace {

// Runs a getpw*_r call; false when the account is not known.
bool look_up(Account &account, const std::function<int(passwd *, char *, size_t, passwd **)> &call)
{
    std::vector<char> buffer(16384);
    passwd entry, *found = nullptr;
    if (call(&entry, buffer.data(), buffer.size(), &found) != 0 || !found)
        return false;
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
    account.change = geteuid() == 0;
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

Result<Account> worker_account(uid_t owner, const RgpudConfig &config)
{
    if (owner == 0)
        return account_named(config.worker_user);
    Account account;
    bool known = look_up(account, [&](passwd *e, char *b, size_t n, passwd **f) {
        return getpwuid_r(owner, e, b, n, f);
    });
    return known ? account : account_named(config.worker_user);
}

Result<Account> Accounts::of(const std::string &lease, uid_t owner, const RgpudConfig &config)
{
    if (const auto known = known_.find(lease); known != known_.end())
        return known->second;
    Result<Account> account = worker_account(owner, config);
    if (account)
        known_[lease] = *account;
    return account;
}

}  // namespace rgpu::serverd
