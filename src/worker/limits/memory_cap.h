// SPDX-License-Identifier: Apache-2.0
// The lease's cap on device memory: every call that takes device memory goes through here.
//
// The cap may change while the worker runs (rgpu resize). Where the lease has all of its GPUs'
// memory there is nothing to enforce, and as long as that was always so only what has a size is
// counted. From the first smaller cap on the worker is `strict`: it counts in two ways, and the
// larger of the two stands in the lease's account:
//
//   - what its calls took. A size that is said (linear, managed, pooled, virtual memory, arrays,
//   graphs' own) is counted
//     before the driver has it, rounded as the driver rounds; what has none (contexts, modules,
//     streams, the first launch of a function) is the difference that the call made.
//   - what the driver says that this process holds: the software GPU at every look, NVIDIA's
//   through NVML's list of
//     processes, which takes long and is asked when something has no size or does not fit.
//
// Both are this process's own figures, so that no other lease needs to stand still and none can
// make this one wait. Where NVML does not list this process (some containers, some releases), the
// difference in what the whole device has free stands in. Others may take or give memory at that
// moment, so that it is held between what the call's arguments say at least and at most, and giving
// back is never more than was counted. A module's variables have no such bounds: there, and only
// there, a neighbour's call at the same moment is counted to this lease or hides a part of it.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "serverd/memory_account.h"
#include "serverd/worker_start.h"
#include "worker/driver/driver.h"
#include "worker/limits/held_memory.h"

namespace rgpu::worker {

uint64_t times(uint64_t a, uint64_t b);
uint64_t whole_pages(uint64_t bytes);

// What a call takes by its arguments.
struct MemoryBounds {
    uint64_t least = 0, most = UINT64_MAX;
};

class MemoryCap {
public:
    // The caps of the devices are in their order.
    MemoryCap(const Driver &real, MemoryAccount &account, size_t devices);

    // A cap is enforced, or was once. Where one has become smaller since the last call, what is
    // held by now is counted first.
    bool is_strict() { return strict_.load(std::memory_order_acquire) || become_strict(); }
    // The cap has changed, or is about to: the account has what is held when this returns.
    void heed();

    using Call = std::function<CUresult()>;

    using Bounds = MemoryBounds;
    // A call whose cost the driver tells; `cost` gets what is counted. Past the cap it is undone
    // and CUDA_ERROR_OUT_OF_MEMORY is returned; without `undo` it is counted all the same, and what
    // comes next is refused.
    CUresult measured(int device, const Call &call, const Call &undo, Bounds bounds,
                      uint64_t &cost);
    CUresult measured(int device, const Call &call, const Call &undo = {}, Bounds bounds = {});
    // A call that takes so many bytes, rounded to pages where it has pages of its own. `counted`
    // gets what is counted.
    CUresult sized(int device, uint64_t bytes, uint64_t &counted, const Call &call);
    // A call after which refresh() knows what was taken: no more than `most`.
    CUresult told(int device, uint64_t most, const Call &call);
    // A call that gives back what `counted` was counted for.
    CUresult released(int device, uint64_t counted, const Call &call);

    // Counts so many bytes, which are to be taken or have been taken, if they fit.
    bool take(int device, uint64_t bytes);
    bool took(int device, uint64_t bytes);
    void give(int device, uint64_t bytes);

    // Counts what pools and graphs hold by now.
    void refresh(int device);
    // ... and what the driver says of the process.
    void look(int device);
    uint64_t left(int device);
    uint64_t used(int device) { return account_.used(static_cast<size_t>(device)); }
    // UINT64_MAX where nothing is enforced.
    uint64_t cap(int device) const
    {
        const auto d = static_cast<size_t>(device);
        return account_.is_limited(d) ? account_.cap(d) : UINT64_MAX;
    }
    bool is_limited(int device) const { return account_.is_limited(static_cast<size_t>(device)); }
    size_t devices() const { return counted_.size(); }
    bool has(int device) const { return device >= 0 && static_cast<size_t>(device) < devices(); }

    // The device of the calling thread's context, or of a stream's; -1 without one.
    int current_device() const;
    int device_of(CUstream stream) const;

    // Counts what graphs hold; false when that does not fit.
    bool settle_graphs(int device, bool anyway);

    // What limits (the heap of kernels, their stack) let the driver take when it comes to it; it is
    // counted already. unpromise() takes back as much as there is, and says how much.
    void promise(int device, uint64_t bytes);
    uint64_t unpromise(int device, uint64_t bytes);

    // How large memory is that the next import brings: the driver does not tell.
    void import_comes(uint64_t bytes) { coming_ = bytes; }
    uint64_t take_coming() { return std::exchange(coming_, 0); }

    // What stands for each piece.
    LinearMemory linear;
    HeldObjects objects;
    OpenedMemory opened;
    HeldPools pools;
    LeavingMemory leaving;
    PhysicalMemory physical;
    GraphMemory graphs;
    HeldContexts contexts;

    // The driver's own calls, and whether it is the software GPU's.
    const Driver real;
    const bool is_software;
    // All calls in front of the driver are carried out one after the other, but for those that wait
    // (memory_cap_front.h).
    std::unique_lock<std::recursive_mutex> lock();
    // How often the lock was taken so far. With the lock held.
    uint64_t entries() const { return entries_; }

    // What this process holds on the device, where the driver says so.
    std::optional<uint64_t> own(int device) const;

    // A context has gone: with the last one of its device all that this worker held there.
    void forget_context(int device, CUcontext context);

private:
    bool become_strict();
    void count_all(int device);
    std::optional<uint64_t> in_use(int device);
    uint64_t cost_of_another_context(int device);
    uint64_t told_of_graphs(int device) const;
    void poll_leaving();
    uint64_t seen(int device);
    bool hold(int device, const std::function<uint64_t()> &target);

    std::recursive_mutex mutex_;
    std::atomic<bool> strict_ = false;
    uint64_t entries_ = 0, coming_ = 0;
    uint64_t (*const held_here_)(int device);  // the software GPU's
    MemoryAccount &account_;
    std::vector<uint64_t> counted_, seen_;  // the two ways to count
    std::vector<uint64_t> promised_;
};

// Enforces the caps that `start` has, if any, and those that the scheduler says from then on, in
// front of the process's driver. `account` is the descriptor of the lease's memory account.
Result<void> enforce_memory_cap(Driver &driver, int account, const serverd::WorkerStart &start);

// So many pages of a device are the client's credit (worker/bands), as other workers of the lease
// are to know; how many of theirs are, on a device or (-1) on all. 0 without an account.
void note_credit(int device, uint64_t pages);
uint64_t others_credit(int device);

// The cap that is enforced in this process, or may be one day; or null. Any thread.
MemoryCap *memory_cap();

// The calls, in front of the driver's own; the cap lives as long as the process, and is
// memory_cap() from now on. Once.
void put_in_front(Driver &driver, MemoryCap &cap);

}  // namespace rgpu::worker
