// SPDX-License-Identifier: Apache-2.0
// Writes configuration files, keeps what they were, and takes changes back.
#include "slurm/conf/changes.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <optional>
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "slurm/conf/conf.h"
#include "util/fd.h"

namespace rgpu::slurm {
namespace {

constexpr const char *kIndex = "/changes.json";

Error failed(const char *doing, const std::string &path)
{
    return error(errno == EACCES || errno == EROFS || errno == EPERM ? ErrorKind::unsupported
                                                                     : ErrorKind::internal,
                 "%s %s: %s", doing, path.c_str(), strerror(errno));
}

std::string folder_of(const std::string &path)
{
    size_t slash = path.find_last_of('/');
    return slash == path.npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

// Where `lines` stands in the text, as whole lines; nothing where it does not, or more than once.
std::optional<size_t> only_place(const std::string &text, std::string_view lines)
{
    std::optional<size_t> found;
    for (size_t at = text.find(lines); at != text.npos; at = text.find(lines, at + 1)) {
        size_t end = at + lines.size();
        bool begins = at == 0 || text[at - 1] == '\n';
        bool ends = end == text.size() || lines.back() == '\n' || text[end] == '\n' ||
                    text[end] == '\r';
        if (!begins || !ends) continue;
        if (found) return {};
        found = at;
    }
    return found;
}

std::string one_line(std::string_view text)
{
    std::string out(text);
    while (!out.empty() && (out.back() == '\n' || out.back() == '\r')) out.pop_back();
    return out;
}

// A file that was not renamed yet: it goes with this object.
struct Staged {
    std::string name;
    ~Staged()
    {
        if (!name.empty()) unlink(name.c_str());
    }
};

Result<void> write_all(int fd, const std::string &text, const std::string &name)
{
    for (size_t done = 0; done < text.size();) {
        ssize_t n = write(fd, text.data() + done, text.size() - done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return failed("writing", name);
        done += static_cast<size_t>(n);
    }
    return fsync(fd) == 0 ? Result<void>() : failed("writing", name);
}

// `mode` is set whatever the umask is.
Result<void> write_new(const std::string &name, const std::string &text, mode_t mode, uid_t owner,
                       gid_t group)
{
    Fd file(open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file) return failed("making", name);
    struct stat made;
    if (fstat(file.get(), &made) != 0) return failed("looking at", name);
    if ((made.st_uid != owner || made.st_gid != group) && fchown(file.get(), owner, group) != 0)
        return failed("giving to its owner", name);
    if (fchmod(file.get(), mode) != 0) return failed("setting the mode of", name);
    return write_all(file.get(), text, name);
}

Result<void> stage(const FileWrite &file, const struct stat &like, Staged &out)
{
    struct stat old;
    bool there = stat(file.real.c_str(), &old) == 0;
    std::string name = file.real + ".rgpu-" + std::to_string(getpid());
    unlink(name.c_str());
    out.name = name;
    return write_new(name, file.text, there ? old.st_mode & 07777 : 0644,
                     there ? old.st_uid : like.st_uid, there ? old.st_gid : like.st_gid);
}

void sync_folder(const std::string &folder)
{
    if (Fd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)); fd) (void)fsync(fd.get());
}

}  // namespace

Result<std::string> taken_back(const ChangedFile &change, const std::string &now)
{
    if (now == change.after) return change.before;
    std::string out = now;
    for (const Hunk &hunk : change.hunks) {
        std::string_view wrote =
            std::string_view(change.after).substr(hunk.after_at, hunk.after_size);
        auto at = only_place(out, wrote);
        if (!at)
            return error(ErrorKind::invalid,
                         "%s was edited since: the line \"%s\", which setup wrote, is %s. Put it "
                         "back, or take rgpu's lines out by hand",
                         change.path.c_str(), one_line(wrote).c_str(),
                         out.find(wrote) == out.npos ? "not there any more"
                                                     : "not there just once");
        out.replace(*at, wrote.size(), change.before, hunk.before_at, hunk.before_size);
    }
    return out;
}

Result<void> write_files(const std::vector<FileWrite> &files, const std::string &like)
{
    struct stat owner = {};
    if (stat(like.c_str(), &owner) != 0) return failed("looking at", like);
    std::vector<Staged> staged(files.size());
    for (size_t i = 0; i < files.size(); ++i)
        if (!files[i].remove)
            if (auto done = stage(files[i], owner, staged[i]); !done) return done;
    for (size_t i = 0; i < files.size(); ++i) {
        const std::string &real = files[i].real;
        if (files[i].remove ? unlink(real.c_str()) != 0 && errno != ENOENT
                            : rename(staged[i].name.c_str(), real.c_str()) != 0)
            return failed(files[i].remove ? "removing" : "replacing", real);
        staged[i].name.clear();
        sync_folder(folder_of(real));
    }
    return {};
}

std::string record_folder(const std::string &slurm_conf)
{
    return folder_of(slurm_conf) + "/rgpu-setup";
}

namespace {

std::string time_folder(const std::string &folder, size_t n)
{
    return folder + "/" + std::to_string(n);
}

size_t times(const std::string &folder)
{
    size_t n = 0;
    while (access(time_folder(folder, n + 1).c_str(), F_OK) == 0) ++n;
    return n;
}

std::string copy_name(const std::string &folder, size_t file, const char *when)
{
    return folder + "/" + std::to_string(file) + "." + when;
}

Result<ChangedFile> read_change(const nlohmann::json &told, const std::string &folder, size_t n)
{
    ChangedFile out;
    out.path = told.at("path");
    out.real = told.at("real");
    out.existed = told.at("existed");
    for (auto [copy, name] : {std::pair(&out.before, "before"), std::pair(&out.after, "after")}) {
        auto bytes = read_bytes(copy_name(folder, n, name));
        if (!bytes) return std::move(bytes).error();
        *copy = std::move(*bytes);
    }
    for (const nlohmann::json &h : told.at("hunks")) {
        Hunk hunk{h.at(0), h.at(1), h.at(2), h.at(3)};
        auto within = [](size_t at, size_t size, const std::string &text) {
            return at <= text.size() && size <= text.size() - at;
        };
        if (hunk.after_size == 0 || !within(hunk.before_at, hunk.before_size, out.before) ||
            !within(hunk.after_at, hunk.after_size, out.after))
            return error(ErrorKind::invalid, "%s%s does not fit its copies", folder.c_str(),
                         kIndex);
        out.hunks.push_back(hunk);
    }
    return out;
}

Result<std::vector<ChangedFile>> read_time(const std::string &folder)
{
    auto text = read_bytes(folder + kIndex);
    if (!text) return std::move(text).error();
    std::vector<ChangedFile> out;
    try {
        nlohmann::json all = nlohmann::json::parse(*text);
        for (const nlohmann::json &told : all.at("files")) {
            auto change = read_change(told, folder, out.size());
            if (!change) return std::move(change).error();
            out.push_back(std::move(*change));
        }
    } catch (const nlohmann::json::exception &wrong) {
        return error(ErrorKind::invalid, "%s%s: %s", folder.c_str(), kIndex, wrong.what());
    }
    return out;
}

Result<void> write_time(const std::string &folder, const std::vector<ChangedFile> &changes)
{
    nlohmann::json files = nlohmann::json::array();
    for (size_t n = 0; n < changes.size(); ++n) {
        const ChangedFile &change = changes[n];
        nlohmann::json hunks = nlohmann::json::array();
        for (const Hunk &h : change.hunks)
            hunks.push_back({h.before_at, h.before_size, h.after_at, h.after_size});
        files.push_back({{"path", change.path},
                         {"real", change.real},
                         {"existed", change.existed},
                         {"hunks", hunks}});
        for (auto [copy, name] :
             {std::pair(&change.before, "before"), std::pair(&change.after, "after")})
            if (auto done =
                    write_new(copy_name(folder, n, name), *copy, 0600, geteuid(), getegid());
                !done)
                return done;
    }
    return write_new(folder + kIndex, nlohmann::json{{"files", files}}.dump(1, ' ', true) + "\n",
                     0600, geteuid(), getegid());
}

}  // namespace

Result<std::vector<std::vector<ChangedFile>>> read_record(const std::string &folder)
{
    std::vector<std::vector<ChangedFile>> out;
    for (size_t n = 1, all = times(folder); n <= all; ++n) {
        auto time = read_time(time_folder(folder, n));
        if (!time) return std::move(time).error();
        out.push_back(std::move(*time));
    }
    return out;
}

Result<void> add_to_record(const std::string &folder, const std::vector<ChangedFile> &changes)
{
    // slurm.conf may be readable by few.
    if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return failed("making", folder);
    std::string whole = time_folder(folder, times(folder) + 1), fresh = whole + ".new";
    std::error_code ignored;
    std::filesystem::remove_all(fresh, ignored);
    if (mkdir(fresh.c_str(), 0700) != 0) return failed("making", fresh);
    if (auto done = write_time(fresh, changes); !done) return done;
    if (rename(fresh.c_str(), whole.c_str()) != 0) return failed("making", whole);
    sync_folder(folder);
    return {};
}

Result<void> remove_from_record(const std::string &folder, size_t keep)
{
    std::error_code wrong;
    for (size_t n = times(folder); n > keep; --n) {
        std::filesystem::remove_all(time_folder(folder, n), wrong);
        if (wrong)
            return error(ErrorKind::internal, "removing %s: %s", time_folder(folder, n).c_str(),
                         wrong.message().c_str());
    }
    if (keep == 0) rmdir(folder.c_str());
    return {};
}

}  // namespace rgpu::slurm
