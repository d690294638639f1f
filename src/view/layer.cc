// SPDX-License-Identifier: Apache-2.0
// By Linux's newer calls for mounts (5.2), which name files by descriptors: what lies under a path
// may change meanwhile, and does so here.
#include "view/layer.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

namespace rgpu::view {
namespace {

// The names in a directory that is open by O_PATH.
std::vector<std::string> names_in(int directory)
{
    std::vector<std::string> names;
    int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    std::unique_ptr<DIR, int (*)(DIR *)> dir(fd < 0 ? nullptr : fdopendir(fd), closedir);
    while (dirent *entry = dir ? readdir(dir.get()) : nullptr)
        if (std::string_view name = entry->d_name; name != "." && name != "..")
            names.emplace_back(name);
    return names;
}

}  // namespace

Error Layer::failed(const char *doing, const std::string &name) const
{
    const int why = errno;
    return error(ErrorKind::unavailable, "%s %s/%s: %s%s", doing, path_.c_str(), name.c_str(),
                 strerror(why), why == ENOSYS ? " (Linux is older than 5.12)" : "");
}

Result<Layer> Layer::over(Fd directory, std::string path,
                          const std::function<bool(std::string_view)> &hide)
{
    Layer layer(std::move(directory), std::move(path));
    if (auto r = layer.mount_empty(); !r) return std::move(r).error();
    if (auto r = layer.add_all_old(hide); !r) return std::move(r).error();
    return layer;
}

Result<void> Layer::mount_empty()
{
    Fd context(fsopen("tmpfs", FSOPEN_CLOEXEC));
    if (!context) return failed("a tmpfs for", "");
    for (auto [key, value] :
         {std::pair("source", "rgpu"), {"mode", "0755"}, {"size", "4m"}, {"nr_inodes", "65536"}})
        if (fsconfig(context.get(), FSCONFIG_SET_STRING, key, value, 0) != 0)
            return failed("a tmpfs for", "");
    if (fsconfig(context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0)
        return failed("a tmpfs for", "");
    // Before the tmpfs lies over it, and would be part of it.
    all_ = Fd(open_tree(old_.get(), "",
                        OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | AT_EMPTY_PATH));
    if (!all_) return failed("taking", "");
    Fd root(fsmount(context.get(), FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC));
    if (!root) return failed("a tmpfs for", "");
    if (move_mount(root.get(), "", old_.get(), "",
                   MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) != 0)
        return failed("mounting over", "");
    root_ = std::move(root);
    return {};
}

Result<void> Layer::add_all_old(const std::function<bool(std::string_view)> &hide)
{
    for (const std::string &name : names_in(old_.get())) {
        if (hide(name)) continue;
        struct stat status;
        if (fstatat(old_.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0)
            continue;  // gone meanwhile
        if (!S_ISLNK(status.st_mode)) {
            if (auto r = add_old(name, name); !r) return r;
            continue;
        }
        char target[4096];
        ssize_t n = readlinkat(old_.get(), name.c_str(), target, sizeof target);
        if (n < 0 || n == static_cast<ssize_t>(sizeof target)) continue;
        if (auto r = add_link(name, std::string(target, static_cast<size_t>(n))); !r) return r;
    }
    return {};
}

Layer::~Layer()
{
    if (!root_ || kept_) return;
    const std::string path = "/proc/self/fd/" + std::to_string(root_.get());
    umount2(path.c_str(), MNT_DETACH);
}

Result<void> Layer::folders_of(const std::string &name)
{
    for (size_t slash = name.find('/'); slash != name.npos; slash = name.find('/', slash + 1)) {
        const std::string folder = name.substr(0, slash);
        if (mkdirat(root_.get(), folder.c_str(), 0755) != 0 && errno != EEXIST)
            return failed("making", folder);
        // Whatever the umask is.
        if (fchmodat(root_.get(), folder.c_str(), 0755, 0) != 0) return failed("making", folder);
    }
    return {};
}

Result<void> Layer::add_file(const std::string &name, std::string_view text)
{
    if (auto r = folders_of(name); !r || name.ends_with('/')) return r;
    Fd file(openat(root_.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                   0444));
    if (!file || fchmod(file.get(), 0444) != 0 ||
        write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
        return failed("writing", name);
    return {};
}

Result<void> Layer::add_link(const std::string &name, const std::string &target)
{
    if (auto r = folders_of(name); !r) return r;
    return symlinkat(target.c_str(), root_.get(), name.c_str()) == 0 ? Result<void>()
                                                                     : failed("linking", name);
}

Result<void> Layer::add_old(const std::string &name, const std::string &old)
{
    struct stat status;
    if (fstatat(old_.get(), old.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0)
        return failed("looking at", old);
    Fd tree(open_tree(old_.get(), old.c_str(),
                      OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | AT_SYMLINK_NOFOLLOW));
    if (!tree) return failed("taking", old);
    if (auto r = add_file(S_ISDIR(status.st_mode) ? name + "/" : name, ""); !r) return r;
    if (move_mount(tree.get(), "", root_.get(), name.c_str(), MOVE_MOUNT_F_EMPTY_PATH) != 0)
        return failed("binding", name);
    return {};
}

Result<void> Layer::add_device(const std::string &name, mode_t mode, dev_t number)
{
    if (mknodat(root_.get(), name.c_str(), S_IFCHR | mode, number) != 0 ||
        fchmodat(root_.get(), name.c_str(), mode, 0) != 0)
        return failed("making", name);
    return {};
}

Result<void> Layer::add_all(const std::string &name)
{
    if (auto r = add_file(name + "/", ""); !r) return r;
    if (move_mount(all_.get(), "", root_.get(), name.c_str(), MOVE_MOUNT_F_EMPTY_PATH) != 0)
        return failed("binding", name);
    return {};
}

Result<void> Layer::seal()
{
    mount_attr attributes{};
    attributes.attr_set = MOUNT_ATTR_RDONLY;
    if (mount_setattr(root_.get(), "", AT_EMPTY_PATH, &attributes, sizeof attributes) != 0)
        return failed("sealing", "");
    return {};
}

}  // namespace rgpu::view
