// SPDX-License-Identifier: Apache-2.0
#include "share/pages.h"

#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>

#include "share/window.h"
#include "util/packet.h"

namespace rgpu::share {
namespace {

constexpr char kMagic[8] = "rgpupl2";
constexpr int kDescriptors = 4;  // the worker's page, the scheduler's, the bell, the line
constexpr size_t kPage = 4096;
static_assert(sizeof(Told) <= kPage && sizeof(Says) <= kPage);

Error failed(const char *doing)
{
    return error(errno == EMFILE || errno == ENFILE || errno == ENOMEM ? ErrorKind::exhausted
                                                                       : ErrorKind::internal,
                 "%s: %s", doing, strerror(errno));
}

void *map(int fd, int protection)
{
    void *p = mmap(nullptr, kPage, protection, MAP_SHARED, fd, 0);
    return p == MAP_FAILED ? nullptr : p;
}

Result<Fd> memory(const char *name)
{
    Fd fd(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!fd || ftruncate(fd.get(), kPage) != 0) return failed("memory for the pages of a worker");
    return fd;
}

// Nobody who has it open can change its size, or (with `against_writing`, and where the kernel
// knows that) map it to write from now on.
bool seal(int fd, bool against_writing)
{
    constexpr int kSize = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    // Before Linux 5.1 a tenant could give itself the token; what it takes so, it could take
    // without asking, too.
    if (against_writing && fcntl(fd, F_ADD_SEALS, kSize | F_SEAL_FUTURE_WRITE) == 0) return true;
    return fcntl(fd, F_ADD_SEALS, kSize) == 0;
}

}  // namespace

int64_t clock_now()
{
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * kSecond + t.tv_nsec;
}

template <class Words> void Unmap<Words>::operator()(Words *words) const
{
    munmap(const_cast<std::remove_const_t<Words> *>(words), kPage);
}
template struct Unmap<Told>;
template struct Unmap<const Told>;
template struct Unmap<Says>;
template struct Unmap<const Says>;

Result<Ends> open_ends()
{
    Result<Fd> told = memory("scheduler-told"), says = memory("scheduler-says");
    if (!told || !says) return told ? std::move(says).error() : std::move(told).error();
    Ends both;
    both.desk.told.reset(static_cast<const Told *>(map(told->get(), PROT_READ)));
    both.desk.says.reset(static_cast<Says *>(map(says->get(), PROT_READ | PROT_WRITE)));
    if (!both.desk.told || !both.desk.says) return failed("mapping the pages of a worker");
    if (!seal(told->get(), false) || !seal(says->get(), true))
        return failed("sealing the pages of a worker");
    both.bell.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    int line[2], ends[2];
    if (!both.bell || pipe2(line, O_CLOEXEC | O_NONBLOCK) != 0)
        return failed("the pages of a worker");
    both.line.reset(line[0]);
    Fd workers_line(line[1]);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return failed("the pages of a worker");
    Fd ours(ends[0]);
    both.socket.reset(ends[1]);
    const int given[kDescriptors] = {told->get(), says->get(), both.bell.get(), workers_line.get()};
    if (send_packet(ours.get(), kMagic, sizeof kMagic, given, MSG_DONTWAIT) != 0)
        return failed("the pages of a worker");
    return both;
}

namespace {

// What lies ready in the socket; with MSG_PEEK it stays there, too.
Result<std::vector<Fd>> descriptors_in(int socket, int flags)
{
    char text[sizeof kMagic] = {};
    std::vector<Fd> given;
    const ssize_t n =
        receive_packet(socket, text, sizeof text, given, kDescriptors, MSG_DONTWAIT | flags);
    if (n <= 0 || given.size() != kDescriptors)
        return error(ErrorKind::disconnected, "there is no scheduler");
    if (n != static_cast<ssize_t>(sizeof kMagic) || memcmp(text, kMagic, sizeof kMagic))
        return error(ErrorKind::invalid, "the scheduler is of another version");
    return given;
}

}  // namespace

Result<Page<const Says>> look_at_words(int socket)
{
    Result<std::vector<Fd>> given = descriptors_in(socket, MSG_PEEK);
    if (!given) return std::move(given).error();
    Page<const Says> says(static_cast<const Says *>(map((*given)[1].get(), PROT_READ)));
    if (!says) return failed("mapping the pages of this worker");
    return says;
}

Result<TenantEnd> take_tenant_end(int socket)
{
    Result<std::vector<Fd>> given = descriptors_in(socket, 0);
    if (!given) return std::move(given).error();
    const Fd told = std::move((*given)[0]), says = std::move((*given)[1]);
    TenantEnd end;
    end.bell = std::move((*given)[2]);
    end.line = std::move((*given)[3]);
    end.told.reset(static_cast<Told *>(map(told.get(), PROT_READ | PROT_WRITE)));
    end.says.reset(static_cast<const Says *>(map(says.get(), PROT_READ)));
    if (!end.told || !end.says) return failed("mapping the pages of this worker");
    return end;
}

}  // namespace rgpu::share
