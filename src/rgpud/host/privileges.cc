// SPDX-License-Identifier: Apache-2.0
#include "rgpud/host/privileges.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include "rgpud/host/boards.h"

namespace rgpu::serverd {
namespace {

namespace fs = std::filesystem;

uint64_t bit(int capability) { return uint64_t{1} << capability; }

uint64_t needed(const RgpudConfig &config)
{
    auto low = [](int64_t port) { return port > 0 && port < 1024; };
    std::ifstream file("/proc/sys/kernel/dmesg_restrict");
    int restricted = 0;
    file >> restricted;
    // Software GPUs leave nothing in the kernel's log.
    const bool reads_log = restricted && config.health_check.count() && config.driver != "softgpu";
    return (low(config.control_port) || low(config.data_port) ? bit(CAP_NET_BIND_SERVICE) : 0) |
           (reads_log ? bit(CAP_SYSLOG) : 0);
}

Error failed(const std::string &what)
{
    return error(ErrorKind::internal, "%s: %s", what.c_str(), strerror(errno));
}

// What lies in a folder that others may write to is given away only if root made it.
void give_memory(const RgpudConfig &config, const Account &account)
{
    const fs::path some = memory_path(config.state_dir, "");
    std::error_code failure;
    for (const fs::directory_entry &entry : fs::directory_iterator(some.parent_path(), failure)) {
        struct stat state;
        const std::string &path = entry.path().native();
        if (!path.starts_with(some.native()) || lstat(path.c_str(), &state) != 0 ||
            state.st_uid != 0)
            continue;
        if (S_ISREG(state.st_mode) ? state.st_nlink == 1 : S_ISDIR(state.st_mode))
            (void)!lchown(path.c_str(), account.uid, account.gid);
        if (S_ISDIR(state.st_mode))
            for (const fs::directory_entry &inner : fs::directory_iterator(path, failure))
                (void)!lchown(inner.path().c_str(), account.uid, account.gid);
    }
}

}  // namespace

Account rgpud_account(const RgpudConfig &config)
{
    if (Result<Account> named = account_named(config.user); named && named->uid != 0) return *named;
    Account account;
    if (Result<UidRange> range = parse_uid_range(config.worker_uids))
        account.uid = account.gid = range->low;
    account.name = std::to_string(account.uid);
    return account;
}

Result<void> give_state(const RgpudConfig &config, const Account &account)
{
    static const std::set<std::string> of_root = {"cache", "images", "own", "softgpu"};
    const std::string &dir = config.state_dir;
    if (mkdir(dir.c_str(), 0755) != 0 && errno != EEXIST)
        return error(ErrorKind::invalid,
                     "cannot make the directory %s: %s; see [rgpud] state_dir in rgpu.conf",
                     dir.c_str(), strerror(errno));
    if (chmod(dir.c_str(), 0755) != 0 || lchown(dir.c_str(), account.uid, account.gid) != 0)
        return failed(dir);
    std::error_code failure;
    for (const fs::directory_entry &entry : fs::directory_iterator(dir, failure)) {
        const std::string name = entry.path().filename();
        // Tenants' own files are in these; the folder of the software GPUs alone is given.
        if (of_root.count(name) && name != "softgpu") continue;
        if (lchown(entry.path().c_str(), account.uid, account.gid) != 0)
            return failed(entry.path());
        if (name == "workers")
            for (const fs::directory_entry &inner : fs::directory_iterator(entry.path(), failure))
                (void)!lchown(inner.path().c_str(), account.uid, account.gid);
    }
    give_memory(config, account);
    // Where no folder above keeps that user out.
    if (seteuid(account.uid) != 0) return failed("seteuid");
    const bool reached = faccessat(AT_FDCWD, dir.c_str(), W_OK | X_OK, AT_EACCESS) == 0;
    if (seteuid(0) != 0) abort();
    if (!reached)
        return error(ErrorKind::invalid,
                     "user %s, whom rgpud becomes, does not reach the directory %s: let all users "
                     "search the directories "
                     "above it (chmod a+x), or set [rgpud] state_dir in rgpu.conf",
                     account.name.c_str(), dir.c_str());
    return {};
}

Result<void> leave_root(const RgpudConfig &config, const Account &account)
{
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {};
    if (syscall(SYS_capget, &header, data) != 0) return failed("capget");
    const uint64_t had = data[0].permitted | uint64_t{data[1].permitted} << 32,
                   kept = needed(config) & had;
    // The bounding set can be made smaller by those only who have CAP_SETPCAP.
    if (had & bit(CAP_SETPCAP))
        for (int capability = 0; prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; ++capability)
            if (!(kept & bit(capability)) && prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0)
                return failed("a capability cannot be given up");
    if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) != 0 ||
        setgroups(account.groups.size(), account.groups.data()) != 0 ||
        setresgid(account.gid, account.gid, account.gid) != 0 ||
        setresuid(account.uid, account.uid, account.uid) != 0)
        return failed("rgpud cannot become user " + account.name);
    for (size_t i = 0; i < _LINUX_CAPABILITY_U32S_3; ++i) {
        data[i].permitted = data[i].effective = static_cast<uint32_t>(kept >> 32 * i);
        data[i].inheritable = 0;
    }
    if (syscall(SYS_capset, &header, data) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return failed("capset");
    return {};
}

}  // namespace rgpu::serverd
