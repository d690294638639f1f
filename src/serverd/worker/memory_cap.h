// The lease's cap on device memory: every call that takes device memory goes through here.
//
// Where a lease has all of its GPUs' memory there is nothing to enforce, and nothing is put in front of the driver.
// Else: what says its size (linear, managed, pooled, virtual memory, graphs' own) is counted by it, rounded
// as the driver rounds; what does not (contexts, modules, arrays, the first launch of a function, small pieces that
// share a page) by what the driver says is free before and after. Workers of other leases that enforce a cap on the
// same GPU stand still meanwhile, so that the difference is this call's own.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <unordered_set>

#include "serverd/worker/driver.h"
#include "serverd/worker/memory_account.h"

namespace rgpu::worker {

constexpr uint64_t kMemoryPage = uint64_t{2} << 20;  // what the driver takes from the device at a time
constexpr uint64_t kSharesPages = kMemoryPage / 2;   // requests up to this size share pages

class MemoryCap {
public:
    // The caps of the devices in their order, and of each its number on the host (whose byte of `host_locks` is
    // locked while the driver is asked).
    MemoryCap(const Driver &real, MemoryAccount account, Fd host_locks, std::vector<int> host_index);

    using Call = std::function<CUresult()>;

    // A call whose cost the driver tells. Past the cap it is undone and CUDA_ERROR_OUT_OF_MEMORY is returned; without
    // `undo` it is counted all the same, and what comes next is refused.
    CUresult measured(int device, const Call &call, const Call &undo = {});
    // A call that takes so many bytes, rounded to pages where it has pages of its own. `held` gets what is counted.
    CUresult sized(int device, uint64_t bytes, uint64_t &held, const Call &call);
    void give(int device, uint64_t bytes) { account_.give(static_cast<size_t>(device), bytes); }

    // Counts what pools and graphs hold by now.
    void refresh(int device);
    uint64_t left(int device);
    uint64_t used(int device) { return account_.used(static_cast<size_t>(device)); }
    uint64_t cap(int device) const { return account_.cap(static_cast<size_t>(device)); }

    // The device of the calling thread's context; -1 without one.
    int current_device() const;

    // Linear memory with pages of its own, managed memory.
    struct Held {
        int device = 0;
        uint64_t bytes = 0;
    };
    std::map<CUdeviceptr, Held> held;

    struct Pool {
        int device = 0;
        uint64_t counted = 0;
    };
    std::map<CUmemoryPool, Pool> pools;
    std::map<CUdeviceptr, std::pair<CUmemoryPool, Held>> pooled;

    // Virtual memory: alive as long as a handle or a mapping is.
    struct Physical {
        Held held;
        int references = 1;
    };
    std::map<CUmemGenericAllocationHandle, Physical> physical;
    std::map<CUdeviceptr, std::pair<uint64_t, CUmemGenericAllocationHandle>> mapped;  // address -> bytes, what

    std::vector<uint64_t> graphs;  // counted for graphs' own memory, by device
    bool has_graph_memory = false;
    std::vector<std::set<CUcontext>> contexts;  // by device, the primary one too
    std::unordered_set<CUfunction> launched;

    const Driver real;
    const bool is_software;  // the driver is the software GPU's
    std::recursive_mutex mutex;

    // A context has gone: with the last one of its device all that this worker held there.
    void forget_context(int device, CUcontext context);

private:
    friend class HostLock;
    std::optional<uint64_t> in_use(int device);
    uint64_t cost_of_another_context(int device);

    MemoryAccount account_;
    Fd host_locks_;
    std::vector<int> host_index_;
};

// Enforces RGPU_WORKER_MEMORY (doc/protocol.md) in front of the process's driver, with the descriptors that rgpud gave.
Result<void> enforce_memory_cap(Driver &driver, int account, int host_locks);

// The cap that is enforced in this process, or null.
MemoryCap *memory_cap();

// The calls, in front of the driver's own; the cap lives as long as the process.
void put_in_front(Driver &driver, MemoryCap &cap);

}  // namespace rgpu::worker
