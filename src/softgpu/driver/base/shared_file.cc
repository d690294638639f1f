// SPDX-License-Identifier: Apache-2.0
#include "softgpu/driver/base/shared_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace rgpu::softgpu::driver {

namespace {

// The key is the end of the file's name, which the kernel shows to those who may open it.
uint64_t key_of(int fd)
{
    char path[64], link[256];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const ssize_t n = readlink(path, link, sizeof link - 1);
    if (n < 0) return 0;
    link[n] = 0;
    const char *at = strstr(link, "/memfd:rgpu-");
    return at == link ? strtoull(at + strlen("/memfd:rgpu-"), nullptr, 16) : 0;
}

}  // namespace

Result<Fd> make_shared_file(uint64_t bytes)
{
    uint64_t key = 0;
    if (getrandom(&key, sizeof key, 0) != sizeof key)
        return error(ErrorKind::internal, "getrandom: %s", strerror(errno));
    char name[64];
    snprintf(name, sizeof name, "rgpu-%016" PRIx64, key | 1);
    Fd fd(memfd_create(name, MFD_CLOEXEC));
    if (!fd || ftruncate(fd.get(), static_cast<off_t>(bytes)))
        return error(ErrorKind::exhausted, "a file of %" PRIu64 " bytes in memory: %s", bytes,
                     strerror(errno));
    return fd;
}

SharedFileName name_of(const Fd &fd) { return {getpid(), fd.get(), key_of(fd.get())}; }

Result<Fd> open_shared_file(const SharedFileName &name)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", name.pid, name.fd);
    // O_PATH first: what else the descriptor is (a terminal, a pipe) must not notice.
    Fd there(open(path, O_PATH | O_CLOEXEC));
    if (!there)
        return error(ErrorKind::invalid, "process %d shares no such memory: %s", name.pid,
                     strerror(errno));
    if (!name.key || key_of(there.get()) != name.key)
        return error(ErrorKind::invalid, "process %d does not share this memory any more",
                     name.pid);
    snprintf(path, sizeof path, "/proc/self/fd/%d", there.get());
    Fd fd(open(path, O_RDWR | O_CLOEXEC));
    if (!fd)
        return error(ErrorKind::invalid, "the memory of process %d: %s", name.pid, strerror(errno));
    return fd;
}

// --- exported

namespace {

constexpr int kExportedSeals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW;

const char *prefix_of(GivenAway what)
{
    return what == GivenAway::memory ? "rgpu-gpu-memory-" : "rgpu-gpu-pool-";
}

}  // namespace

Result<Fd> make_exported_file(GivenAway what, const CUuuid &device, uint64_t bytes)
{
    std::string name = prefix_of(what);
    for (const char c : device.bytes) {
        char two[3];
        snprintf(two, sizeof two, "%02x", static_cast<unsigned char>(c));
        name += two;
    }
    Fd fd(memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!fd || ftruncate(fd.get(), static_cast<off_t>(bytes)) ||
        fcntl(fd.get(), F_ADD_SEALS, kExportedSeals))
        return error(ErrorKind::exhausted, "a file of %" PRIu64 " bytes in memory: %s", bytes,
                     strerror(errno));
    return fd;
}

std::optional<ExportedFile> exported_file(GivenAway what, int fd)
{
    struct stat st = {};
    char path[64], link[256] = "";
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || fcntl(fd, F_GET_SEALS) != kExportedSeals ||
        readlink(path, link, sizeof link - 1) < 0)
        return {};
    const std::string begin = std::string("/memfd:") + prefix_of(what);
    if (strncmp(link, begin.c_str(), begin.size())) return {};
    ExportedFile file;
    file.bytes = static_cast<uint64_t>(st.st_size);
    const char *digits = link + begin.size();
    for (char &c : file.device.bytes) {
        unsigned value = 0;
        if (sscanf(digits, "%2x", &value) != 1) return {};
        c = static_cast<char>(value);
        digits += 2;
    }
    return file;
}

}  // namespace rgpu::softgpu::driver
