// SPDX-License-Identifier: Apache-2.0
// How much device memory all workers of one lease hold: a file that they share, and the cap that it
// may reach.
//
// Each worker has a slot in the file, which is its own as long as it holds the lock on its byte:
// what a worker held that died, however it died, counts no more. One more byte is locked for each
// look or change.
//
// The file is the lease's own. A worker that writes nonsense there, or keeps the lock, harms the
// lease alone: sums stop at the largest number, and what this worker holds it knows from elsewhere
// and writes anew each time.
//
// A worker's word is the bytes that it holds, rounded up to 256. The low byte is a number of pages:
// those of the bytes that its client has as credit and does not use (worker/bands), 255 at most.
//
// The cap is not in this file, which each of the workers may write: it is a word of memory that
// they may only read (share::Says::memory), and changes while they run. Who takes memory writes its
// word, and then reads the cap. Who makes the cap smaller writes that, and then reads the words
// (in_use()). So at least one of the two sees the other, without a lock between them.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "util/fd.h"
#include "util/result.h"

namespace rgpu::worker {

class MemoryAccount {
public:
    // The size of the file for so many workers and GPUs: rgpud makes it, empty.
    static uint64_t file_bytes(uint64_t workers, size_t gpus)
    {
        return (workers + 1) * slot_bytes(gpus);
    }

    // Takes a slot in the file that `fd` is open on; `caps` has bytes for each GPU. The descriptor
    // must be of an open file description of this process's own: locks belong to that. Fails with
    // `exhausted` without a slot. `places` says which of the lease's `gpus` each is; without them
    // they are all of the lease's, in its order.
    static Result<MemoryAccount> open(Fd fd, std::vector<uint64_t> caps,
                                      std::vector<size_t> places = {}, size_t gpus = 0);
    MemoryAccount(MemoryAccount &&other) noexcept;
    MemoryAccount &operator=(MemoryAccount &&) = delete;
    ~MemoryAccount();

    // What the lease may have: as open() was told, or as this word says, which outlives the
    // account; a word of 0 says nothing.
    void follow(size_t gpu, const std::atomic<uint64_t> *word) { said_[gpu] = word; }
    uint64_t cap(size_t gpu) const
    {
        const uint64_t said = said_[gpu] ? said_[gpu]->load(std::memory_order_seq_cst) : 0;
        return said ? said : caps_[gpu];
    }
    // No cap is enforced where it is no less than this: what the GPU has. Nothing: it always is.
    void set_whole(size_t gpu, uint64_t bytes) { whole_[gpu] = bytes; }
    bool is_limited(size_t gpu) const { return cap(gpu) < whole_[gpu]; }
    // This worker holds so many bytes from now on, if all workers together then hold no more than
    // the cap.
    bool hold(size_t gpu, uint64_t bytes);
    // The same, whatever the others hold: for what cannot be undone.
    void hold_anyway(size_t gpu, uint64_t bytes);
    uint64_t used(size_t gpu);

    // So many pages of what this worker holds are its client's credit; how many the others have.
    void note_credit(size_t gpu, uint64_t pages);
    uint64_t others_credit(size_t gpu);

    // What all workers that live say there, of each of the lease's GPUs: for rgpud, which takes no
    // lock. `file` is of an open file description of the caller's own.
    struct InUse {
        uint64_t bytes = 0, credit = 0;  // bytes in all, and pages of them that no program uses
    };
    static std::vector<InUse> in_use(const Fd &file, size_t gpus);

private:
    static uint64_t slot_bytes(size_t gpus) { return 8 * gpus; }
    MemoryAccount(Fd fd, std::vector<uint64_t> caps, std::vector<size_t> places, size_t gpus)
        : fd_(std::move(fd)), caps_(std::move(caps)), places_(std::move(places)), gpus_(gpus),
          held_(caps_.size()), credit_(caps_.size()), said_(caps_.size()),
          whole_(caps_.size(), UINT64_MAX)
    {}
    bool take_slot();
    struct Others {
        uint64_t bytes = 0, credit = 0;
    };
    Others others(size_t gpu);
    void write(size_t gpu);
    uint64_t *words(uint64_t slot) { return words_ + (slot + 1) * gpus_; }
    uint64_t &word(uint64_t slot, size_t gpu) { return words(slot)[places_[gpu]]; }

    Fd fd_;
    std::vector<uint64_t> caps_;  // as they were at the start
    std::vector<size_t> places_;  // of each GPU in the file's rows
    size_t gpus_;                 // in each row
    std::vector<uint64_t> held_;  // what this worker holds of each, as it knows itself
    std::vector<uint64_t> credit_;
    std::vector<const std::atomic<uint64_t> *> said_;
    std::vector<uint64_t> whole_;
    uint64_t *words_ = nullptr;
    uint64_t bytes_ = 0, slots_ = 0, slot_ = 0;
    std::mutex mutex_;
};

}  // namespace rgpu::worker
