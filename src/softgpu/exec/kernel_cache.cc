// The disk cache, and compile_cached().
#include "softgpu/exec/kernel_cache.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "softgpu/engine.h"
#include "softgpu/exec/kernel_file.h"
#include "softgpu/exec/limits.h"
#include "util/fd.h"

namespace rgpu::softgpu::exec {

namespace fs = std::filesystem;

namespace {

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

bool write_all(int fd, const std::vector<uint8_t> &bytes)
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

std::string variable(const char *name)
{
    const char *value = getenv(name);
    return value ? value : "";
}

constexpr std::string_view kTemporary = ".tmp-";

}  // namespace

std::string KernelCache::configured_directory()
{
    if (std::string own = variable("RGPU_SOFTGPU_CACHE"); !own.empty()) return own == "off" ? "" : own;
    if (std::string xdg = variable("XDG_CACHE_HOME"); xdg.starts_with('/')) return xdg + "/rgpu/softgpu";
    if (std::string home = variable("HOME"); home.starts_with('/')) return home + "/.cache/rgpu/softgpu";
    return "";
}

std::string KernelCache::path(std::string_view key) const
{
    return directory_ + '/' + std::string(key.substr(0, 2)) + '/' + std::string(key);
}

std::optional<CompiledKernel> KernelCache::find(std::string_view key) const
{
    if (directory_.empty() || !is_key(key)) return {};
    Fd fd(open(path(key).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    struct stat s;
    if (!fd || fstat(fd.get(), &s) != 0 || !S_ISREG(s.st_mode) || !trusted(s)) return {};
    if (s.st_size <= 0 || static_cast<uint64_t>(s.st_size) > kMaxObject) return {};
    std::vector<uint8_t> bytes(static_cast<size_t>(s.st_size));
    if (!read_all(fd.get(), bytes)) return {};
    auto kernel = from_file(key, bytes);
    if (kernel) {
        futimens(fd.get(), nullptr);  // used now; where that is not allowed, it looks older
    } else {
        fd = Fd();
        unlink(path(key).c_str());
    }
    return kernel;
}

void KernelCache::store(std::string_view key, const CompiledKernel &kernel) const
{
    static std::atomic<unsigned> number{0};
    static std::atomic<uint64_t> since_look{kCacheLook};  // a process looks at its first store
    if (directory_.empty() || !is_key(key)) return;
    std::string folder = directory_ + '/' + std::string(key.substr(0, 2));
    if (!make_directories(directory_) || !make_directories(folder)) return;
    std::string temporary = folder + '/' + std::string(kTemporary) + std::to_string(getpid()) + '-' +
                            std::to_string(number++);
    std::vector<uint8_t> bytes = to_file(key, kernel);
    {
        Fd fd(open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
        if (!fd) return;
        if (!write_all(fd.get(), bytes)) {
            unlink(temporary.c_str());
            return;
        }
    }
    if (rename(temporary.c_str(), path(key).c_str()) != 0) unlink(temporary.c_str());
    if (since_look.fetch_add(bytes.size()) + bytes.size() < kCacheLook) return;
    since_look = 0;
    trim();
}

void KernelCache::trim() const
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

}  // namespace rgpu::softgpu::exec

namespace rgpu::softgpu {

Result<CompiledKernel> compile_cached(const PtxModule &module, std::string_view kernel)
{
    exec::KernelCache cache(exec::KernelCache::configured_directory(), exec::kCacheBytes);
    std::string key = module.cache_key(kernel);
    if (auto found = cache.find(key)) return std::move(*found);
    auto compiled = module.compile(kernel);
    if (compiled) cache.store(key, *compiled);
    return compiled;
}

}  // namespace rgpu::softgpu
