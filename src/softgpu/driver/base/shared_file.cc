#include "softgpu/driver/base/shared_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>

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

}  // namespace rgpu::softgpu::driver
