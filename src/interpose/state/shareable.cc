// SPDX-License-Identifier: Apache-2.0
#include "interpose/state/shareable.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <deque>
#include <mutex>

#include "interpose/state/client.h"
#include "wire/shareable.h"

namespace rgpu::interpose::shareable {

namespace {

constexpr std::string_view kMagic{"rgpu memory 1\n\0\0", 16};
constexpr int kSeals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

// A file that a program has open for writing, seen through a descriptor of ours for reading.
struct Watched {
    Fd fd;
    dev_t device = 0;
    ino_t inode = 0;
    Closed what;
};

struct Descriptors {
    std::mutex mutex;
    std::deque<Watched> watched;
};
Descriptors &state() { return client_part<Descriptors>(Part::descriptors); }

std::string path_of(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

Fd again(const Fd &fd, int flags) { return Fd(open(path_of(fd.get()).c_str(), flags | O_CLOEXEC)); }

// A program that closes descriptors that are not its own may have another file there by now.
bool is_still(const Watched &w)
{
    struct stat now = {};
    return !fstat(w.fd.get(), &now) && now.st_dev == w.device && now.st_ino == w.inode;
}

// The kernel gives a lease for reading while nobody has the file open for writing (fcntl(2)): no
// process then has the program's descriptor, nor is it under way between two. A lease that is
// broken at once, before the descriptor is closed, may raise a signal: one that is ignored.
bool is_closed(const Watched &w) { return fcntl(w.fd.get(), F_SETLEASE, F_RDLCK) == 0; }

void watch(const Fd &file, std::string_view name, unsigned server)
{
    struct stat made = {};
    Watched w{again(file, O_RDONLY), 0, 0, {std::string(name), server}};
    if (!w.fd || fstat(w.fd.get(), &made) || fcntl(w.fd.get(), F_SETSIG, SIGURG)) return;
    w.device = made.st_dev, w.inode = made.st_ino;
    std::lock_guard lock(state().mutex);
    state().watched.push_back(std::move(w));
    client_counter(Counter::descriptors) = 1;
}

}  // namespace

Result<Fd> make(std::string_view name, unsigned server)
{
    const std::string bytes = std::string(kMagic) + std::string(name);
    Fd file(memfd_create("rgpu memory", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!file || write(file.get(), bytes.data(), bytes.size()) != ssize_t(bytes.size()) ||
        fcntl(file.get(), F_ADD_SEALS, kSeals))
        return error(ErrorKind::exhausted, "no file in memory: %s", strerror(errno));
    // Only what open(2) has opened for writing counts as open for writing. Without /proc, or a
    // further descriptor, the server keeps the memory until the program ends.
    Fd program = again(file, O_RDWR);
    if (!program) return file;
    watch(file, name, server);
    return program;
}

std::optional<std::string> name_in(int fd)
{
    struct stat about = {};
    if (fstat(fd, &about) || !S_ISREG(about.st_mode)) return {};
    const auto bytes = static_cast<uint64_t>(about.st_size);
    if (fcntl(fd, F_GET_SEALS) != kSeals || bytes <= kMagic.size() ||
        bytes > kMagic.size() + wire::kMaxShareableName)
        return {};
    std::string all(bytes, 0);
    if (pread(fd, all.data(), all.size(), 0) != static_cast<ssize_t>(all.size())) return {};
    if (!all.starts_with(kMagic)) return {};
    return all.substr(kMagic.size());
}

std::vector<Closed> take_closed(size_t most)
{
    std::vector<Closed> closed;
    Descriptors &s = state();
    std::lock_guard lock(s.mutex);
    for (size_t left = std::min(most, s.watched.size()); left; left--) {
        Watched w = std::move(s.watched.front());
        s.watched.pop_front();
        if (!is_still(w))
            w.fd.release();  // not ours any more
        else if (is_closed(w))
            closed.push_back(std::move(w.what));
        else
            s.watched.push_back(std::move(w));
    }
    return closed;
}

bool any() { return client_counter(Counter::descriptors).load(std::memory_order_relaxed); }

}  // namespace rgpu::interpose::shareable
