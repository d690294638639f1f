// SPDX-License-Identifier: Apache-2.0
#include "cli/parts/container_image.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <climits>
#include <cstring>

#include "util/fd.h"
#include "util/next_token.h"

namespace rgpu::cli {
namespace {

constexpr int kMostLinks = 40;  // as Linux

// Where the loaders of Debian's and of Red Hat's families look without being told; the first that
// has the libc is the image's.
constexpr const char *kLibraryDirs[] = {"/usr/lib/x86_64-linux-gnu",
                                        "/lib/x86_64-linux-gnu",
                                        "/usr/lib64",
                                        "/lib64",
                                        "/usr/lib",
                                        "/lib"};

bool is_file(const std::string &path)
{
    struct stat status;
    return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

// A file's bytes, as long as this lives; none where it cannot be read.
class Mapped {
public:
    explicit Mapped(const std::string &path)
    {
        Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
        struct stat status;
        if (!fd || fstat(fd.get(), &status) != 0 || status.st_size == 0) return;
        void *at =
            mmap(nullptr, static_cast<size_t>(status.st_size), PROT_READ, MAP_PRIVATE, fd.get(), 0);
        if (at != MAP_FAILED)
            text_ = {static_cast<const char *>(at), static_cast<size_t>(status.st_size)};
    }
    Mapped(const Mapped &) = delete;
    Mapped &operator=(const Mapped &) = delete;
    ~Mapped()
    {
        if (!text_.empty()) munmap(const_cast<char *>(text_.data()), text_.size());
    }
    std::string_view text() const { return text_; }

private:
    std::string_view text_;
};

// The loader's cache has its strings one after the other, each with a 0 behind it: paths of
// libraries are found without the rest of its format.
std::vector<std::string> cached(const std::string &rootfs, const std::string &name)
{
    auto cache = resolve_in(rootfs, "/etc/ld.so.cache");
    if (!cache) return {};
    Mapped file(rootfs + *cache);
    std::vector<std::string> paths;
    std::string end = "/" + name + std::string(1, '\0');
    std::string_view text = file.text();
    for (size_t at = 0; (at = text.find(end, at)) != text.npos; at += end.size()) {
        size_t begin = text.rfind('\0', at);
        begin = begin == text.npos ? 0 : begin + 1;
        if (text[begin] == '/' && at - begin < PATH_MAX)
            paths.emplace_back(text.substr(begin, at - begin + end.size() - 1));
    }
    return paths;
}

// Where NVIDIA's images have a driver library of their own, which their entry points may put first.
std::vector<std::string> compat(const std::string &rootfs, const std::string &name)
{
    std::vector<std::string> paths;
    auto local = resolve_in(rootfs, "/usr/local");
    DIR *directory = local ? opendir((rootfs + *local).c_str()) : nullptr;
    while (dirent *entry = directory ? readdir(directory) : nullptr)
        if (strncmp(entry->d_name, "cuda", 4) == 0)
            paths.push_back("/usr/local/" + std::string(entry->d_name) + "/compat/" + name);
    if (directory) closedir(directory);
    return paths;
}

// The directory of the image's libc, without links; empty where it has none.
std::string libc_dir(const std::string &rootfs)
{
    for (const char *directory : kLibraryDirs) {
        auto place = resolve_in(rootfs, directory);
        auto libc = resolve_in(rootfs, std::string(directory) + "/libc.so.6");
        if (place && libc && is_file(rootfs + *libc)) return *place;
    }
    return {};
}

}  // namespace

Result<std::string> resolve_in(const std::string &rootfs, const std::string &path)
{
    std::vector<std::string> left = tokens(path, "/");
    std::reverse(left.begin(), left.end());
    std::string at;
    for (int links = 0; !left.empty();) {
        std::string part = std::move(left.back());
        left.pop_back();
        if (part == ".") continue;
        if (part == "..") {
            at.resize(at.empty() ? 0 : at.rfind('/'));
            continue;
        }
        char target[PATH_MAX];
        ssize_t n = readlink((rootfs + at + "/" + part).c_str(), target, sizeof target);
        if (n < 0) {
            at += "/" + part;
            continue;
        }
        if (++links > kMostLinks)
            return error(ErrorKind::invalid, "%s%s: too many symbolic links", rootfs.c_str(),
                         path.c_str());
        if (target[0] == '/') at.clear();
        std::vector<std::string> more =
            tokens(std::string_view(target, static_cast<size_t>(n)), "/");
        left.insert(left.end(), more.rbegin(), more.rend());
    }
    return at.empty() ? "/" : at;
}

std::vector<std::string> places_for(const std::string &rootfs, const std::string &name,
                                    const std::string &search)
{
    std::string standard = libc_dir(rootfs);
    if (standard.empty()) return {};
    std::vector<std::string> others = cached(rootfs, name);
    for (std::string &path : compat(rootfs, name)) others.push_back(std::move(path));
    for (const std::string &directory : tokens(search, ":"))
        others.push_back(directory + "/" + name);
    std::vector<std::string> places;
    if (auto place = resolve_in(rootfs, standard + "/" + name)) places.push_back(*place);
    for (const std::string &path : others)
        if (auto place = resolve_in(rootfs, path);
            place && is_file(rootfs + *place) &&
            std::find(places.begin(), places.end(), *place) == places.end())
            places.push_back(*place);
    return places;
}

std::string missing_glibc(const std::string &rootfs, const std::string &library)
{
    constexpr std::string_view kVersion = "GLIBC_2.";
    std::string directory = libc_dir(rootfs);
    auto libc = resolve_in(rootfs, directory + "/libc.so.6");
    if (directory.empty() || !libc) return {};
    Mapped ours(library), theirs(rootfs + *libc);
    unsigned most = 0;
    for (size_t at = 0; (at = ours.text().find(kVersion, at)) != std::string_view::npos;) {
        at += kVersion.size();
        unsigned minor = 0;
        std::from_chars(ours.text().data() + at, ours.text().data() + ours.text().size(), minor);
        most = std::max(most, minor);
    }
    std::string needed = std::to_string(most);
    bool there = theirs.text().find(std::string(kVersion) + needed + std::string(1, '\0')) !=
                 std::string_view::npos;
    return there || theirs.text().empty() ? std::string() : "2." + needed;
}

}  // namespace rgpu::cli
