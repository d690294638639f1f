// SPDX-License-Identifier: Apache-2.0
// The files of a cache.
#include "util/file_cache.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <system_error>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/fd.h"

namespace rgpu {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kTemporary = ".tmp-";

bool is_key(std::string_view key)
{
    auto hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
    return key.size() >= 8 && key.size() <= 128 && std::all_of(key.begin(), key.end(), hex);
}

// What lies here is run: it must be ours alone to write.
bool trusted(const struct stat &s)
{
    return s.st_uid == geteuid() && !(s.st_mode & (S_IWGRP | S_IWOTH));
}

bool read_all(int fd, std::vector<uint8_t> &bytes)
{
    for (size_t at = 0; at < bytes.size();) {
        ssize_t n = read(fd, bytes.data() + at, bytes.size() - at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        at += static_cast<size_t>(n);
    }
    return true;
}

bool write_all(int fd, std::span<const uint8_t> bytes)
{
    for (size_t at = 0; at < bytes.size();) {
        ssize_t n = write(fd, bytes.data() + at, bytes.size() - at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        at += static_cast<size_t>(n);
    }
    return true;
}

bool make_directories(const std::string &path)
{
    std::error_code ignored;
    fs::path parent = fs::path(path).parent_path();
    if (!parent.empty()) fs::create_directories(parent, ignored);
    struct stat s;
    return (mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) && stat(path.c_str(), &s) == 0 &&
           S_ISDIR(s.st_mode) && trusted(s);
}

}  // namespace

std::string FileCache::folder(std::string_view key) const
{
    return layout_ == Layout::flat ? directory_ : directory_ + '/' + std::string(key.substr(0, 2));
}

std::string FileCache::path(std::string_view key) const
{
    return folder(key) + '/' + std::string(key);
}

std::optional<std::vector<uint8_t>> FileCache::find(std::string_view key) const
{
    if (directory_.empty() || !is_key(key)) return {};
    Fd fd(open(path(key).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    struct stat s;
    if (!fd || fstat(fd.get(), &s) != 0 || !S_ISREG(s.st_mode) || !trusted(s)) return {};
    if (s.st_size <= 0 || static_cast<uint64_t>(s.st_size) > largest_) return {};
    std::vector<uint8_t> bytes(static_cast<size_t>(s.st_size));
    if (!read_all(fd.get(), bytes)) return {};
    futimens(fd.get(), nullptr);  // used now; where that is not allowed, it looks older
    return bytes;
}

void FileCache::remove(std::string_view key) const
{
    if (!directory_.empty() && is_key(key)) unlink(path(key).c_str());
}

bool FileCache::store(std::string_view key, std::span<const uint8_t> bytes) const
{
    static std::atomic<unsigned> number{0};
    if (directory_.empty() || !is_key(key) || bytes.empty() || bytes.size() > largest_)
        return false;
    if (!make_directories(directory_) ||
        (layout_ == Layout::folders && !make_directories(folder(key))))
        return false;
    const std::string temporary = folder(key) + '/' + std::string(kTemporary) +
                                  std::to_string(getpid()) + '-' + std::to_string(number++);
    Fd fd(open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!fd) return false;
    if (write_all(fd.get(), bytes) && rename(temporary.c_str(), path(key).c_str()) == 0)
        return true;
    unlink(temporary.c_str());
    return false;
}

std::vector<std::string> FileCache::keys(size_t most) const
{
    std::vector<std::string> found;
    DIR *dir = directory_.empty() ? nullptr : opendir(directory_.c_str());
    if (!dir) return found;
    while (dirent *entry = found.size() < most ? readdir(dir) : nullptr)
        if (is_key(entry->d_name)) found.emplace_back(entry->d_name);
    closedir(dir);
    return found;
}

void FileCache::trim() const
{
    struct Entry {
        fs::file_time_type used;
        uint64_t bytes;
        fs::path path;
    };
    std::vector<Entry> entries;
    uint64_t total = 0;
    std::error_code failed;
    auto yesterday = fs::file_time_type::clock::now() - std::chrono::hours(24);
    for (fs::recursive_directory_iterator at(directory_, failed), end; !failed && at != end;
         at.increment(failed)) {
        std::error_code e;
        if (!at->is_regular_file(e) || e) continue;
        Entry entry{at->last_write_time(e), 0, at->path()};
        if (!e) entry.bytes = at->file_size(e);
        if (e) continue;  // another process removed it
        std::string name = entry.path.filename().string();
        if (name.starts_with(kTemporary)) {
            if (entry.used < yesterday) fs::remove(entry.path, e);  // its writer died
        } else if (is_key(name)) {
            total += entry.bytes;
            entries.push_back(std::move(entry));
        }
    }
    if (total <= bound_) return;
    std::sort(entries.begin(), entries.end(), [](auto &a, auto &b) { return a.used < b.used; });
    for (const Entry &entry : entries) {
        if (total <= bound_ / 5 * 4) break;
        std::error_code e;
        fs::remove(entry.path, e);
        total -= entry.bytes;
    }
}

}  // namespace rgpu
