// SPDX-License-Identifier: Apache-2.0
#include "softgpu/driver/base/gpu_host.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

namespace rgpu::softgpu::driver {

namespace {

constexpr uint64_t kMagic = 0x31'54'53'4f'48'55'50'47;  // "GPUHOST1"
constexpr off_t kSectionByte = 0, kFirstSlotByte = 1;

int lock_byte(int fd, int command, off_t byte, short type)
{
    struct flock l = {};
    l.l_type = type;
    l.l_whence = SEEK_SET;
    l.l_start = byte;
    l.l_len = 1;
    int rc;
    while ((rc = fcntl(fd, command, &l)) < 0 && errno == EINTR) {}
    return rc < 0 ? -errno : l.l_type;
}

Result<Fd> open_file(const std::string &directory)
{
    struct stat st;
    if (mkdir(directory.c_str(), 0700) && errno != EEXIST)
        return error(ErrorKind::unavailable,
                     "making %s: %s (RGPU_SOFTGPU_HOST names this directory)", directory.c_str(),
                     strerror(errno));
    if (stat(directory.c_str(), &st))
        return error(ErrorKind::unavailable, "%s: %s", directory.c_str(), strerror(errno));
    // Whoever else may write into the directory may share its devices.
    const mode_t mode = 0600 | (st.st_mode & 0020 ? 0060 : 0) | (st.st_mode & 0002 ? 0006 : 0);
    const std::string path = directory + "/devices";
    Fd fd(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode));
    if (fd)
        fchmod(fd.get(), mode);  // whatever the umask says
    else if (errno == EEXIST)
        fd.reset(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    if (!fd)
        return error(ErrorKind::unavailable,
                     "opening %s: %s (who shares this GPU host must be able to write it)",
                     path.c_str(), strerror(errno));
    return fd;
}

}  // namespace

struct GpuHost::File {
    uint64_t magic;
    uint64_t bytes;  // of this struct: another size is another version
    struct Slot {
        int64_t pid;  // for people; the lock decides
        uint64_t used[kMaxDevices];
    } slots[kAddresses.slots];
};

// One process at a time, and one thread of it: file locks of one process do not exclude its own
// threads.
class GpuHost::Section {
public:
    explicit Section(GpuHost &h) : host_(h), lock_(h.mutex_)
    {
        lock_byte(host_.fd_.get(), F_SETLKW, kSectionByte, F_WRLCK);
    }
    ~Section() { lock_byte(host_.fd_.get(), F_SETLK, kSectionByte, F_UNLCK); }

private:
    GpuHost &host_;
    std::lock_guard<std::mutex> lock_;
};

GpuHost::~GpuHost()
{
    if (window_) munmap(window_, bytes());
    if (file_) munmap(file_, sizeof(File));
}

// False when the slot is another process's, or its addresses are taken in this one.
Result<bool> GpuHost::take_slot(int slot)
{
    if (lock_byte(fd_.get(), F_SETLK, kFirstSlotByte + slot, F_WRLCK) < 0) return false;
    void *wanted = reinterpret_cast<void *>(addresses_.base + slot * addresses_.slot_bytes);
    constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
    void *window = mmap(wanted, bytes(), PROT_NONE, kFlags, -1, 0);
    if (window == MAP_FAILED && errno != EEXIST)
        return error(ErrorKind::exhausted,
                     "reserving %llu GiB of addresses at %p for device memory: %s (a limit on "
                     "virtual memory, ulimit -v, "
                     "must leave room for it)",
                     static_cast<unsigned long long>(bytes() >> 30), wanted, strerror(errno));
    if (window != wanted) {
        if (window != MAP_FAILED)
            munmap(window, bytes());  // Linux before 4.17 takes the address as a hint
        lock_byte(fd_.get(), F_SETLK, kFirstSlotByte + slot, F_UNLCK);
        return false;
    }
    slot_ = slot;
    window_ = window;
    memset(file_->slots[slot].used, 0, sizeof file_->slots[slot].used);
    file_->slots[slot].pid = getpid();
    return true;
}

Result<void> GpuHost::enter(Fd file, const std::string &name, Start start)
{
    struct stat st;
    fd_ = std::move(file);
    Section section(*this);
    if (fstat(fd_.get(), &st))
        return error(ErrorKind::internal, "%s: %s", name.c_str(), strerror(errno));
    const bool fresh = st.st_size == 0;
    if (fresh && ftruncate(fd_.get(), sizeof(File)))
        return error(ErrorKind::exhausted, "%s: %s", name.c_str(), strerror(errno));
    if (!fresh && st.st_size != sizeof(File))
        return error(ErrorKind::invalid,
                     "%s is of another version of rgpu: end its users, then remove it",
                     name.c_str());
    void *p = mmap(nullptr, sizeof(File), PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
    if (p == MAP_FAILED)
        return error(ErrorKind::exhausted, "mapping %s: %s", name.c_str(), strerror(errno));
    file_ = static_cast<File *>(p);
    if (!file_->magic) {
        file_->bytes = sizeof(File);
        file_->magic = kMagic;
    }
    if (file_->magic != kMagic || file_->bytes != sizeof(File))
        return error(ErrorKind::invalid,
                     "%s is of another version of rgpu: end its users, then remove it",
                     name.c_str());

    const ino_t number = start == Start::by_file ? st.st_ino : 0;
    const int first = static_cast<int>(number % static_cast<ino_t>(addresses_.slots)) * 7 %
                      addresses_.slots;
    for (int i = 0; i < addresses_.slots; i++) {
        Result<bool> taken = take_slot((first + i) % addresses_.slots);
        if (!taken) return std::move(taken).error();
        if (*taken) return {};
    }
    return error(ErrorKind::unavailable,
                 "%d processes use the GPU host %s already; it takes no more", addresses_.slots,
                 name.c_str());
}

Result<std::unique_ptr<GpuHost>> GpuHost::join(Fd file, const std::string &name,
                                               const Addresses &addresses)
{
    return join(std::move(file), name, addresses, Start::first_slot);
}

Result<std::unique_ptr<GpuHost>> GpuHost::join(const std::string &directory,
                                               const Addresses &addresses)
{
    Result<Fd> file = open_file(directory);
    return file ? join(std::move(*file), directory + "/devices", addresses, Start::by_file)
                : std::move(file).error();
}

Result<std::unique_ptr<GpuHost>> GpuHost::join(Fd file, const std::string &name,
                                               const Addresses &addresses, Start start)
{
    std::unique_ptr<GpuHost> host(new GpuHost(addresses));
    if (Result<void> entered = host->enter(std::move(file), name, start); !entered)
        return std::move(entered).error();
    return host;
}

bool GpuHost::slot_is_live(int slot) const
{
    // What F_GETLK leaves as F_UNLCK nobody holds.
    return slot == slot_ ||
           lock_byte(fd_.get(), F_GETLK, kFirstSlotByte + slot, F_WRLCK) != F_UNLCK;
}

uint64_t GpuHost::used_now(int device) const
{
    uint64_t sum = 0;
    for (int i = 0; i < kAddresses.slots; i++) {
        uint64_t &used = file_->slots[i].used[device];
        if (!used) continue;
        if (slot_is_live(i))
            sum += std::min(used, UINT64_MAX - sum);  // another process may have written anything
        else
            memset(file_->slots[i].used, 0, sizeof file_->slots[i].used);
    }
    return sum;
}

bool GpuHost::take(int device, uint64_t bytes, uint64_t limit)
{
    Section section(*this);
    const uint64_t used = used_now(device);
    if (used > limit || bytes > limit - used) return false;
    file_->slots[slot_].used[device] += bytes;
    return true;
}

void GpuHost::give(int device, uint64_t bytes)
{
    Section section(*this);
    uint64_t &used = file_->slots[slot_].used[device];
    used -= std::min(used, bytes);
}

uint64_t GpuHost::held(int device) const
{
    return std::atomic_ref(file_->slots[slot_].used[device]).load(std::memory_order_relaxed);
}

uint64_t GpuHost::used(int device)
{
    Section section(*this);
    return used_now(device);
}

}  // namespace rgpu::softgpu::driver
