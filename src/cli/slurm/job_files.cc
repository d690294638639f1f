// SPDX-License-Identifier: Apache-2.0
#include "cli/slurm/job_files.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace rgpu::cli {
namespace {

// A directory of root that all may pass through, with those above it.
Result<void> make_folder(const std::string &path)
{
    for (size_t at = 1; at != path.npos;) {
        at = path.find('/', at + 1);
        std::string part = path.substr(0, at);
        if (mkdir(part.c_str(), 0755) != 0 && errno != EEXIST) return failed("creating", part);
    }
    struct stat status;
    if (lstat(path.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) || status.st_uid != geteuid())
        return error(ErrorKind::internal, "%s is not a directory of this user; remove it",
                     path.c_str());
    if (chmod(path.c_str(), 0755) != 0) return failed("opening up", path);
    return {};
}

}  // namespace

Error failed(const char *doing, const std::string &path)
{
    return error(ErrorKind::internal, "%s %s: %s", doing, path.c_str(), strerror(errno));
}

std::string folder_of(const std::string &path) { return path.substr(0, path.rfind('/')); }

Result<void> write_file(const std::string &path, const std::string &text, uid_t owner, mode_t mode)
{
    if (auto folder = make_folder(folder_of(path)); !folder) return folder;
    std::string fresh = path + ".new";
    unlink(fresh.c_str());
    int fd = open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) return failed("creating", fresh);
    bool good = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                fchmod(fd, mode) == 0 && fchown(fd, owner, static_cast<gid_t>(-1)) == 0;
    if (close(fd) != 0 || !good || rename(fresh.c_str(), path.c_str()) != 0) {
        Error e = failed("writing", fresh);
        unlink(fresh.c_str());
        return e;
    }
    return {};
}

}  // namespace rgpu::cli
