// SPDX-License-Identifier: Apache-2.0
#include "view/namespaces.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "util/fd.h"

namespace rgpu::view {
namespace {

Result<void> write_to(const char *path, const std::string &text)
{
    Fd file(open(path, O_WRONLY | O_CLOEXEC));
    if (!file || write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
        return error(ErrorKind::unavailable, "%s: %s", path, strerror(errno));
    return {};
}

std::string same(unsigned id) { return std::to_string(id) + " " + std::to_string(id) + " 1"; }

Result<void> keep_to_itself()
{
    if (mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0)
        return error(ErrorKind::unavailable, "mounts cannot be kept from others: %s",
                     strerror(errno));
    return {};
}

}  // namespace

Result<void> enter_mount_namespace()
{
    if (unshare(CLONE_NEWNS) != 0)
        return error(ErrorKind::unavailable, "no mount namespace can be made: %s", strerror(errno));
    return keep_to_itself();
}

Result<void> enter_user_namespace()
{
    const uid_t user = geteuid();
    const gid_t group = getegid();
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
        return error(ErrorKind::unavailable, "no user namespace can be made: %s", strerror(errno));
    if (auto r = write_to("/proc/self/setgroups", "deny"); !r) return r;
    if (auto r = write_to("/proc/self/uid_map", same(user)); !r) return r;
    if (auto r = write_to("/proc/self/gid_map", same(group)); !r) return r;
    return keep_to_itself();
}

}  // namespace rgpu::view
