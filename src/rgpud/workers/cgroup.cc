// SPDX-License-Identifier: Apache-2.0
// The kernel's Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/ say what the files mean.
#include "rgpud/workers/cgroup.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "util/fd.h"

namespace rgpu::serverd {
namespace {

constexpr size_t kMostRead = 1 << 20;  // bytes of one of the kernel's files
constexpr int kPeriod = 100'000;       // microseconds: the kernel's own default
constexpr int kKillRounds =
    10;  // a fork that is under way when groups are closed to new processes needs a second one

Error failed(const std::string &what, int why = errno)
{
    const ErrorKind kind = why == EBUSY || why == EAGAIN ? ErrorKind::unavailable
                           : why == ENOENT               ? ErrorKind::invalid
                                                         : ErrorKind::internal;
    return error(kind, "%s: %s", what.c_str(), strerror(why));
}

Result<std::string> read_file(const std::string &path)
{
    const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) return failed(path);
    std::string text;
    char block[4096];
    ssize_t n;
    while ((n = read(file.get(), block, sizeof block)) > 0 && text.size() < kMostRead)
        text.append(block, static_cast<size_t>(n));
    if (n < 0) return failed(path);
    return text;
}

// One write a value: that is how the kernel takes them.
Result<void> write_file(const std::string &path, const std::string &value)
{
    const Fd file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (!file ||
        write(file.get(), value.data(), value.size()) != static_cast<ssize_t>(value.size()))
        return failed(path + " = " + value);
    return {};
}

Result<void> make_directory(const std::string &path)
{
    if (mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) return failed(path);
    return {};
}

bool exists(const std::string &path) { return access(path.c_str(), F_OK) == 0; }

std::vector<std::string> split(const std::string &text, char at)
{
    std::vector<std::string> parts;
    for (size_t from = 0; from < text.size();) {
        const size_t end = std::min(text.find(at, from), text.size());
        if (end > from) parts.push_back(text.substr(from, end - from));
        from = end + 1;
    }
    return parts;
}

bool is_name(const std::string &name)
{
    return !name.empty() && name.size() <= 128 &&
           std::all_of(name.begin(), name.end(),
                       [](unsigned char c) { return isalnum(c) || c == '-' || c == '_'; });
}

std::string parent_of(const std::string &path) { return path.substr(0, path.rfind('/')); }

// Where this process is in a hierarchy: lines of /proc/self/cgroup are "4:memory:/path", and
// "0::/path" for v2, whose controller is "".
std::string own_group(const std::string &self, const std::string &controller)
{
    for (const std::string &line : split(self, '\n')) {
        const size_t first = line.find(':'), second = line.find(':', first + 1);
        if (second == std::string::npos) continue;
        const std::string names = line.substr(first + 1, second - first - 1);
        const std::vector<std::string> all = split(names, ',');
        if (names == controller || std::find(all.begin(), all.end(), controller) != all.end())
            return line.substr(second + 1) == "/" ? "" : line.substr(second + 1);
    }
    return "";
}

// A limit, as a file and what to write, in the hierarchies that have it.
struct Setting {
    const char *file;
    std::string value;
    bool needed;
};

std::vector<Setting> settings_v2(const Limits &limits)
{
    std::vector<Setting> all;
    if (limits.memory) all.push_back({"memory.max", std::to_string(limits.memory), true});
    if (limits.pids) all.push_back({"pids.max", std::to_string(limits.pids), true});
    if (limits.cpu_hundredths)
        all.push_back(
            {"cpu.max",
             std::to_string(limits.cpu_hundredths * kPeriod / 100) + " " + std::to_string(kPeriod),
             false});
    if (limits.cpu_weight) all.push_back({"cpu.weight", std::to_string(limits.cpu_weight), false});
    return all;
}

std::vector<Setting> settings_v1(const Limits &limits)
{
    std::vector<Setting> all;
    if (limits.memory)
        all.push_back({"memory.limit_in_bytes", std::to_string(limits.memory), true});
    if (limits.pids) all.push_back({"pids.max", std::to_string(limits.pids), true});
    if (limits.cpu_hundredths) {
        all.push_back({"cpu.cfs_period_us", std::to_string(kPeriod), false});
        all.push_back(
            {"cpu.cfs_quota_us", std::to_string(limits.cpu_hundredths * kPeriod / 100), false});
    }
    if (limits.cpu_weight)
        all.push_back({"cpu.shares",
                       std::to_string(std::max<int64_t>(2, limits.cpu_weight * 1024 / 100)),
                       false});
    return all;
}

// Signals all whose pid is in `listed`, and none that took over such a pid meanwhile: what is open
// is looked for in a second list.
bool kill_all(const Cgroup &group)
{
    Result<std::vector<pid_t>> listed = group.pids();
    if (!listed || listed->empty()) return true;
    std::vector<std::pair<pid_t, Fd>> open;
    for (pid_t pid : *listed)
        open.emplace_back(pid, Fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))));
    listed = group.pids();
    for (const auto &[pid, process] : open)
        if (process && listed && std::find(listed->begin(), listed->end(), pid) != listed->end())
            syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0);
    return false;
}

}  // namespace

Result<void> Cgroup::limit(const Limits &limits) const
{
    Result<void> result;
    for (const Setting &setting : v2_ ? settings_v2(limits) : settings_v1(limits)) {
        const auto directory =
            std::find_if(directories_.begin(), directories_.end(),
                         [&](const std::string &d) { return exists(d + "/" + setting.file); });
        Result<void> written = directory == directories_.end()
                                   ? (setting.needed && *this
                                          ? failed(std::string("no ") + setting.file, ENOENT)
                                          : Result<void>())
                                   : write_file(*directory + "/" + setting.file, setting.value);
        if (!written && setting.needed && result) result = std::move(written);
    }
    return result;
}

Result<void> Cgroup::add(pid_t pid) const
{
    for (const std::string &directory : directories_)
        if (Result<void> written = write_file(directory + "/cgroup.procs", std::to_string(pid));
            !written)
            return written;
    return {};
}

Result<std::vector<pid_t>> Cgroup::pids() const
{
    std::vector<pid_t> all;
    if (!*this) return all;
    Result<std::string> text = read_file(directories_[0] + "/cgroup.procs");
    if (!text) return std::move(text).error();
    for (const std::string &line : split(*text, '\n'))
        if (const long pid = strtol(line.c_str(), nullptr, 10); pid > 0)
            all.push_back(static_cast<pid_t>(pid));
    return all;
}

void Cgroup::close() const
{
    if (v2_ && *this && write_file(directories_[0] + "/cgroup.kill", "1")) return;
    for (const std::string &directory : directories_)
        if (exists(directory + "/pids.max")) (void)write_file(directory + "/pids.max", "0");
}

void Cgroup::kill() const
{
    close();
    for (int round = 0; round < kKillRounds; ++round)
        if (kill_all(*this)) return;
}

Result<void> Cgroup::remove() const
{
    Result<void> result;
    for (const std::string &directory : directories_)
        if (rmdir(directory.c_str()) != 0 && errno != ENOENT && result) result = failed(directory);
    return result;
}

CgroupBase::CgroupBase(std::vector<std::string> directories, bool v2)
    : directories_(std::move(directories)), way_(directories_.empty() ? Way::none
                                                 : v2                 ? Way::v2
                                                                      : Way::v1)
{
    told_ = way_ == Way::none ? "workers are limited one by one (rlimits), not job by job"
            : v2              ? "workers are limited by cgroups v2 in " + directories_[0]
                              : "workers are limited by v1 cgroups in " + directories_[0];
}

Result<void> CgroupBase::give(uid_t user) const
{
    for (const std::string &base : directories_)
        if (chown(base.c_str(), user, static_cast<gid_t>(-1)) != 0) return failed(base);
    return {};
}

CgroupBase CgroupBase::find(const std::string &name, const std::string &root,
                            const std::string &self)
{
    CgroupBase base({}, false);
    const Result<std::string> own = read_file(self);
    // The directory of the unified hierarchy has this file; that of v1 is a tmpfs with a directory
    // a controller.
    if (own && (exists(root + "/cgroup.controllers") ? base.find_v2(name, root, own_group(*own, ""))
                                                     : base.find_v1(name, root, *own)))
        return base;
    base.directories_.clear();
    base.way_ = Way::none;
    base.told_ = CgroupBase({}, false).told_ + ": " + (own ? base.told_ : own.error().text);
    return base;
}

bool CgroupBase::find_v2(const std::string &name, const std::string &root, const std::string &own)
{
    // In a group of our own among its parent's: where an earlier process of ours, or
    // DelegateSubgroup=, put us.
    const bool in_leaf = own.ends_with(std::string("/") + kOwnGroup);
    const std::string base = root + (in_leaf ? parent_of(own) : own);
    const Result<std::string> there = read_file(base + "/cgroup.controllers");
    const std::vector<std::string> controllers =
        there ? split(there->substr(0, there->find('\n')), ' ') : std::vector<std::string>();
    std::string wanted;
    for (const char *controller : {"memory", "pids", "cpu"})
        if (std::find(controllers.begin(), controllers.end(), controller) != controllers.end())
            wanted += std::string(wanted.empty() ? "+" : " +") + controller;
        else if (strcmp(controller, "cpu") != 0)
            return told_ = base + " has no controller \"" + controller + "\"", false;
    // The hierarchy's root, which has no such file, may have processes and groups.
    if (!in_leaf && exists(base + "/cgroup.type")) {
        const std::string leaf = base + "/" + kOwnGroup;
        Result<void> moved = make_directory(leaf);
        if (moved) moved = write_file(leaf + "/cgroup.procs", "0");
        if (!moved) return told_ = moved.error().text, false;
    }
    const std::string ours = base + "/" + name;
    Result<void> made = write_file(base + "/cgroup.subtree_control", wanted);
    if (made) made = make_directory(ours);
    if (made) made = write_file(ours + "/cgroup.subtree_control", wanted);
    if (!made) return told_ = made.error().text, false;
    *this = CgroupBase({ours}, true);
    return true;
}

bool CgroupBase::find_v1(const std::string &name, const std::string &root, const std::string &self)
{
    for (const char *controller : {"memory", "pids", "cpu"}) {
        const std::string mounted = root + "/" + controller, own = own_group(self, controller);
        // In a container /proc tells the host's path, and what is mounted is that group.
        const std::string base = (exists(mounted + own) ? mounted + own : mounted) + "/" + name;
        Result<void> made = exists(mounted) ? make_directory(base)
                                            : Result<void>(failed(mounted, ENOENT));
        if (made)
            directories_.push_back(base);
        else if (strcmp(controller, "cpu") != 0)
            return told_ = made.error().text, false;
    }
    // Beside the processes of the rest of the host, all workers together count as one: as one for
    // each processor.
    if (directories_.size() == 3)
        (void)write_file(
            directories_[2] + "/cpu.shares",
            std::to_string(std::min(262144L, 1024 * std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)))));
    *this = CgroupBase(std::move(directories_), false);
    return true;
}

Result<Cgroup> CgroupBase::open(const std::string &name) const
{
    if (!is_name(name))
        return error(ErrorKind::invalid, "a cgroup cannot be called \"%s\"", name.c_str());
    std::vector<std::string> directories;
    for (const std::string &base : directories_) directories.push_back(base + "/" + name);
    return Cgroup(std::move(directories), way_ == Way::v2);
}

Result<Cgroup> CgroupBase::make(const std::string &name, const Limits &limits) const
{
    Result<Cgroup> group = open(name);
    if (!group) return group;
    for (const std::string &base : directories_)
        if (Result<void> made = make_directory(base + "/" + name); !made)
            return std::move(made).error();
    if (Result<void> limited = group->limit(limits); !limited) {
        (void)group->remove();
        return std::move(limited).error();
    }
    return group;
}

void CgroupBase::remove() const
{
    for (const std::string &base : directories_) rmdir(base.c_str());
}

std::vector<std::string> CgroupBase::names() const
{
    std::vector<std::string> names;
    if (directories_.empty()) return names;
    DIR *directory = opendir(directories_[0].c_str());
    while (const dirent *entry = directory ? readdir(directory) : nullptr)
        if (entry->d_type == DT_DIR && is_name(entry->d_name)) names.push_back(entry->d_name);
    if (directory) closedir(directory);
    return names;
}

}  // namespace rgpu::serverd
