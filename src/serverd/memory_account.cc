// SPDX-License-Identifier: Apache-2.0
#include "serverd/memory_account.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <utility>

#include "serverd/file_lock.h"

namespace rgpu::worker {

namespace {

constexpr off_t kSection = 0, kFirstSlot = 1;
constexpr uint64_t kCredit = 0xff;  // of a word

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
      gpus_(other.gpus_), held_(std::move(other.held_)), credit_(std::move(other.credit_)),
      said_(std::move(other.said_)), whole_(std::move(other.whole_)),
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

// What the other live ones have; the slots of the dead are emptied.
MemoryAccount::Others MemoryAccount::others(size_t gpu)
{
    Others all;
    for (uint64_t i = 0; i < slots_; i++) {
        if (i == slot_ || !word(i, gpu)) continue;
        bool live = lock_byte(fd_.get(), F_OFD_GETLK, kFirstSlot + static_cast<off_t>(i),
                              F_WRLCK) != F_UNLCK;
        if (!live) {
            std::fill_n(words(i), gpus_, 0);
            continue;
        }
        all.bytes += std::min(word(i, gpu) & ~kCredit, UINT64_MAX - all.bytes);
        all.credit += word(i, gpu) & kCredit;
    }
    return all;
}

void MemoryAccount::write(size_t gpu)
{
    const uint64_t held = std::min(held_[gpu], ~kCredit);
    word(slot_, gpu) = ((held + kCredit) & ~kCredit) | std::min(credit_[gpu], kCredit);
}

bool MemoryAccount::hold(size_t gpu, uint64_t bytes)
{
    Section section(fd_.get(), mutex_);
    const uint64_t before = std::exchange(held_[gpu], bytes), others = this->others(gpu).bytes;
    // The cap may become smaller at any moment: it is read behind the word, as the header says.
    write(gpu);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    const uint64_t cap = is_limited(gpu) ? this->cap(gpu) : UINT64_MAX;
    if (others <= cap && bytes <= cap - others) return true;
    held_[gpu] = before;
    write(gpu);
    return false;
}

void MemoryAccount::hold_anyway(size_t gpu, uint64_t bytes)
{
    Section section(fd_.get(), mutex_);
    held_[gpu] = bytes;
    write(gpu);
}

uint64_t MemoryAccount::used(size_t gpu)
{
    Section section(fd_.get(), mutex_);
    const uint64_t others = this->others(gpu).bytes;
    return others + std::min(held_[gpu], UINT64_MAX - others);
}

// One word, and nobody else writes it: without the others' lock.
void MemoryAccount::note_credit(size_t gpu, uint64_t pages)
{
    std::lock_guard lock(mutex_);
    credit_[gpu] = pages;
    write(gpu);
}

std::vector<MemoryAccount::InUse> MemoryAccount::in_use(const Fd &file, size_t gpus)
{
    std::vector<InUse> all(gpus);
    std::vector<uint64_t> row(gpus);
    const auto bytes = static_cast<ssize_t>(slot_bytes(gpus));
    std::atomic_thread_fence(std::memory_order_seq_cst);
    for (off_t slot = 0;
         pread(file.get(), row.data(), static_cast<size_t>(bytes), (slot + 1) * bytes) == bytes;
         slot++) {
        if (std::none_of(row.begin(), row.end(), [](uint64_t word) { return word != 0; })) continue;
        if (lock_byte(file.get(), F_OFD_GETLK, kFirstSlot + slot, F_WRLCK) == F_UNLCK) continue;
        for (size_t gpu = 0; gpu < gpus; gpu++) {
            all[gpu].bytes += std::min(row[gpu] & ~kCredit, UINT64_MAX - all[gpu].bytes);
            all[gpu].credit += row[gpu] & kCredit;
        }
    }
    return all;
}

uint64_t MemoryAccount::others_credit(size_t gpu)
{
    Section section(fd_.get(), mutex_);
    return others(gpu).credit;
}

}  // namespace rgpu::worker
