// SPDX-License-Identifier: Apache-2.0
#include "net/transport/shared_transport.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cerrno>
#include <chrono>
#include <cstring>

namespace rgpu::net {

namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// Neither can change once it is sealed: no access below can miss its page. Huge pages can.
bool is_shared_memory(int fd)
{
    const int seals = fcntl(fd, F_GET_SEALS);
    struct stat s;
    struct statfs f;
    return seals >= 0 && (seals & (F_SEAL_SHRINK | F_SEAL_GROW)) == (F_SEAL_SHRINK | F_SEAL_GROW) &&
           fstat(fd, &s) == 0 && S_ISREG(s.st_mode) &&
           s.st_size == static_cast<off_t>(sizeof(SharedMemory)) && fstatfs(fd, &f) == 0 &&
           f.f_type == TMPFS_MAGIC;
}

bool is_bell(int fd)
{
    int domain = 0, type = 0;
    socklen_t bytes = sizeof domain;
    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &bytes) == 0 &&
           getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes) == 0 && domain == AF_UNIX &&
           type == SOCK_STREAM;
}

}  // namespace

Result<Fd> make_shared_memory()
{
    Fd fd(memfd_create("rgpu", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!fd || ftruncate(fd.get(), sizeof(SharedMemory)) != 0 ||
        fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0)
        return error(ErrorKind::exhausted, "no shared memory: %s", strerror(errno));
    return fd;
}

// --- Bell

// One that cannot be rung for all the bytes in it has been rung.
void SharedTransport::Bell::ring() const
{
    const char byte = 0;
    if (socket.ours()) (void)!::send(socket.get(), &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

// What was rung is taken away only while nobody sleeps: it may be another's to see.
bool SharedTransport::Bell::begin_sleep()
{
    std::lock_guard lock(mutex_);
    bool open = true;
    if (!sleepers_) {
        char bytes[4096];  // far more than a peer of ours rings in vain
        const ssize_t n = recv(socket.get(), bytes, sizeof bytes, MSG_DONTWAIT);
        open = n > 0 || errno == EAGAIN || errno == EINTR;
    }
    ++sleepers_;
    return open;
}

void SharedTransport::Bell::end_sleep()
{
    std::lock_guard lock(mutex_);
    --sleepers_;
}

// --- SharedTransport

Result<std::unique_ptr<Transport>> SharedTransport::open(Side side, int memory, Fd data_bell,
                                                         Fd room_bell, Fd kept)
{
    if (!is_shared_memory(memory) || !is_bell(data_bell.get()) || !is_bell(room_bell.get()))
        return error(ErrorKind::invalid,
                     "what should be shared memory is none that can be trusted");
    void *p = mmap(nullptr, sizeof(SharedMemory), PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    if (p == MAP_FAILED)
        return error(ErrorKind::exhausted, "shared memory cannot be mapped: %s", strerror(errno));
    // The child of a fork has a connection of its own.
    madvise(p, sizeof(SharedMemory), MADV_DONTFORK);
    return std::unique_ptr<Transport>(new SharedTransport(static_cast<SharedMemory *>(p), side,
                                                          std::move(data_bell),
                                                          std::move(room_bell), std::move(kept)));
}

SharedTransport::SharedTransport(SharedMemory *memory, Side side, Fd data_bell, Fd room_bell,
                                 Fd kept)
    : memory_(memory), in_(side == Side::client ? memory->down : memory->up),
      out_(side == Side::client ? memory->up : memory->down), receiver_(in_), sender_(out_),
      data_(std::move(data_bell)), room_(std::move(room_bell)), kept_(std::move(kept))
{}

SharedTransport::~SharedTransport()
{
    if (memory_) munmap(memory_, sizeof *memory_);
}

unsigned SharedTransport::there(unsigned events)
{
    if (closed_) return events;
    return (events & kData && receiver_.has_data() ? kData : 0u) |
           (events & kRoom && sender_.has_room() ? kRoom : 0u) |
           (events & kPlace && sender_.has_place() ? kPlace : 0u);
}

// Until one of the events may have come, or the time is over. False: the descriptors are not ours
// any more.
bool SharedTransport::sleep(unsigned events, int timeout)
{
    if (!data_.socket.ours() || !room_.socket.ours()) return errno = EBADF, false;
    const bool data = events & kData, room = events & (kRoom | kPlace);
    // The first is looked at in any case: by its end the peer's is known.
    pollfd looks[2] = {{data_.socket.get(), static_cast<short>(POLLRDHUP | (data ? POLLIN : 0)), 0},
                       {room_.socket.get(), POLLIN, 0}};
    if (data && !data_.begin_sleep()) closed_ = true;
    if (room && !room_.begin_sleep()) closed_ = true;
    if (data) in_.receiver_sleeps.store(1, std::memory_order_seq_cst);
    if (room) out_.sender_sleeps.store(1, std::memory_order_seq_cst);
    constexpr short kOver = POLLRDHUP | POLLHUP | POLLERR | POLLNVAL;
    if (!there(events) && poll(looks, room ? 2 : 1, timeout) > 0 && looks[0].revents & kOver)
        closed_ = true;
    if (data) data_.end_sleep();
    if (room) room_.end_sleep();
    return true;
}

unsigned SharedTransport::wait(unsigned events, int timeout)
{
    if (const unsigned now = there(events); now || !timeout) return now;
    if (!sleep(events, timeout)) return events;  // what is tried then says why
    return there(events);
}

// After anything that makes room for the peer.
void SharedTransport::woke_sender()
{
    if (receiver_.made_room()) room_.ring();
}

ssize_t SharedTransport::receive(void *to, size_t bytes, int timeout)
{
    using namespace std::chrono;
    const auto end = timeout > 0 ? steady_clock::now() + milliseconds(timeout)
                                 : steady_clock::time_point::max();
    for (;;) {
        const bool closed = closed_;  // before the look: what the peer sent last comes first
        const ssize_t n = receiver_.receive(to, bytes);
        if (n) {
            if (n > 0) woke_sender();
            return n;
        }
        if (closed) return 0;
        errno = EAGAIN;
        const auto left = timeout > 0 ? ceil<milliseconds>(end - steady_clock::now()).count()
                                      : timeout;
        if (!timeout || (timeout > 0 && left <= 0)) return -1;
        if (!sleep(kData, static_cast<int>(left))) return -1;
    }
}

ssize_t SharedTransport::send(const iovec *parts, int count, int timeout)
{
    using namespace std::chrono;
    const auto end = timeout > 0 ? steady_clock::now() + milliseconds(timeout)
                                 : steady_clock::time_point::max();
    for (;;) {
        if (closed_) return errno = EPIPE, -1;
        const ssize_t n = sender_.send(parts, count, [this] { data_.ring(); });
        if (n) return n;
        errno = EAGAIN;
        const auto left = timeout > 0 ? ceil<milliseconds>(end - steady_clock::now()).count()
                                      : timeout;
        if (!timeout || (timeout > 0 && left <= 0)) return -1;
        if (!sleep(kRoom, static_cast<int>(left))) return -1;
    }
}

void SharedTransport::shutdown()
{
    closed_ = true;
    if (data_.socket.ours()) ::shutdown(data_.socket.get(), SHUT_RDWR);
    if (room_.socket.ours()) ::shutdown(room_.socket.get(), SHUT_RDWR);
}

void SharedTransport::leave_to_parent()
{
    memory_ = nullptr;  // is not there (MADV_DONTFORK)
    data_.socket.let_go();
    room_.socket.let_go();
    kept_.let_go();
}

Lent SharedTransport::lend(size_t most)
{
    const Lent lent = receiver_.lend(most);
    if (lent.data) woke_sender();
    return lent;
}

void SharedTransport::give_back(const Lent &lent)
{
    receiver_.give_back(lent);
    woke_sender();
}

void *SharedTransport::reserve(size_t &bytes)
{
    bytes = SharedRing::kPlaceBytes;
    return sender_.reserve();
}

}  // namespace rgpu::net
