#include "serverd/memory_account.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>

#include "serverd/file_lock.h"

namespace rgpu::worker {

namespace {

constexpr off_t kSection = 0, kFirstSlot = 1;

// One worker at a time, and one thread of it.
class Section {
public:
    Section(int fd, std::mutex &mutex) : fd_(fd), lock_(mutex)
    {
        lock_byte(fd_, F_OFD_SETLKW, kSection, F_WRLCK);
    }
    ~Section() { lock_byte(fd_, F_OFD_SETLK, kSection, F_UNLCK); }

private:
    int fd_;
    std::lock_guard<std::mutex> lock_;
};

}  // namespace

Result<MemoryAccount> MemoryAccount::open(Fd fd, std::vector<uint64_t> caps,
                                          std::vector<size_t> places, size_t gpus)
{
    if (places.empty()) {
        gpus = caps.size();
        places.resize(gpus);
        std::iota(places.begin(), places.end(), size_t{0});
    }
    if (places.size() != caps.size() ||
        std::any_of(places.begin(), places.end(), [&](size_t place) { return place >= gpus; }))
        return error(ErrorKind::internal, "%zu caps and %zu places in a lease of %zu GPUs",
                     caps.size(), places.size(), gpus);
    struct stat st;
    if (fstat(fd.get(), &st) != 0)
        return error(ErrorKind::internal, "the lease's memory account: %s", strerror(errno));
    MemoryAccount account(std::move(fd), std::move(caps), std::move(places), gpus);
    account.bytes_ = static_cast<uint64_t>(st.st_size);
    account.slots_ = account.bytes_ / slot_bytes(gpus);
    if (account.slots_-- < 2)
        return error(ErrorKind::internal, "the lease's memory account has %lld bytes",
                     static_cast<long long>(st.st_size));
    void *p =
        mmap(nullptr, account.bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, account.fd_.get(), 0);
    if (p == MAP_FAILED)
        return error(ErrorKind::exhausted, "mapping the lease's memory account: %s",
                     strerror(errno));
    account.words_ = static_cast<uint64_t *>(p);
    if (!account.take_slot())
        return error(ErrorKind::exhausted, "the lease has %llu workers already",
                     static_cast<unsigned long long>(account.slots_));
    return account;
}

MemoryAccount::MemoryAccount(MemoryAccount &&other) noexcept
    : fd_(std::move(other.fd_)), caps_(std::move(other.caps_)), places_(std::move(other.places_)),
      gpus_(other.gpus_), held_(std::move(other.held_)),
      words_(std::exchange(other.words_, nullptr)), bytes_(other.bytes_), slots_(other.slots_),
      slot_(other.slot_)
{}

MemoryAccount::~MemoryAccount()
{
    if (words_) munmap(words_, bytes_);
}

bool MemoryAccount::take_slot()
{
    Section section(fd_.get(), mutex_);
    for (slot_ = 0; slot_ < slots_; slot_++) {
        if (lock_byte(fd_.get(), F_OFD_SETLK, kFirstSlot + static_cast<off_t>(slot_), F_WRLCK) < 0)
            continue;
        std::fill_n(words(slot_), gpus_, 0);
        return true;
    }
    return false;
}

// What the other live ones hold; the slots of the dead are emptied.
uint64_t MemoryAccount::others_hold(size_t gpu)
{
    uint64_t all = 0;
    for (uint64_t i = 0; i < slots_; i++) {
        if (i == slot_ || !word(i, gpu)) continue;
        bool live = lock_byte(fd_.get(), F_OFD_GETLK, kFirstSlot + static_cast<off_t>(i),
                              F_WRLCK) != F_UNLCK;
        if (live)
            all += std::min(word(i, gpu), UINT64_MAX - all);
        else
            std::fill_n(words(i), gpus_, 0);
    }
    return all;
}

bool MemoryAccount::hold(size_t gpu, uint64_t bytes)
{
    Section section(fd_.get(), mutex_);
    const uint64_t others = others_hold(gpu);
    if (others > caps_[gpu] || bytes > caps_[gpu] - others) return false;
    word(slot_, gpu) = held_[gpu] = bytes;
    return true;
}

void MemoryAccount::hold_anyway(size_t gpu, uint64_t bytes)
{
    Section section(fd_.get(), mutex_);
    word(slot_, gpu) = held_[gpu] = bytes;
}

uint64_t MemoryAccount::used(size_t gpu)
{
    Section section(fd_.get(), mutex_);
    const uint64_t others = others_hold(gpu);
    return others + std::min(held_[gpu], UINT64_MAX - others);
}

}  // namespace rgpu::worker
