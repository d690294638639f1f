// SPDX-License-Identifier: Apache-2.0
// What this worker's calls hold of device memory, by kind: what was counted for each piece, so that
// as much is given back when it goes. Sums and the lease's cap: memory_cap.h.
//
// No thread of its own and no lock: capped::Entry holds the cap's. "Forget" means that a device's
// last context has ended, and all with it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "calls/cuda_api.h"

namespace rgpu::worker {

// What the driver takes from the device at a time, and up to which size requests share such pages.
inline constexpr uint64_t kMemoryPage = uint64_t{2} << 20;
inline constexpr uint64_t kSharesPages = kMemoryPage / 2;

// Sums that stop at the largest number: sizes come from a client.
inline uint64_t add(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }

// What counts for one piece.
struct Held {
    int device = 0;
    uint64_t bytes = 0;
};

// Linear and managed memory.
class LinearMemory {
public:
    // With pages of its own.
    void hold(CUdeviceptr address, Held held) { held_[address] = held; }
    // A small piece, by its own size: it shares pages with others.
    void hold_small(CUdeviceptr, Held);
    // The bytes of those pages of a small piece that no other has.
    uint64_t new_pages(CUdeviceptr, uint64_t bytes) const;
    bool has_shared_pages() const { return !pages_.empty(); }
    // It is freed: what that gives back; nothing where it is not known.
    struct Freed : Held {
        uint64_t small = 0;  // a small piece's own size
    };
    std::optional<Freed> freed(CUdeviceptr);
    // It was not, after all.
    void stays(CUdeviceptr, const Freed &);
    void forget(int device);

private:
    uint64_t drop_pages(CUdeviceptr, uint64_t bytes);

    std::map<CUdeviceptr, Held> held_, small_;
    std::map<uint64_t, uint64_t> pages_;  // by number: how many pieces lie in it
};

// Whatever has a handle: arrays, modules, streams, contexts.
class HeldObjects {
public:
    void hold(const void *object, Held held) { held_[object] = held; }
    std::optional<Held> of(const void *object) const;
    void ended(const void *object) { held_.erase(object); }
    void forget(int device);

private:
    std::map<const void *, Held> held_;
};

// Other processes' memory, which counts once, however often it is opened.
class OpenedMemory {
public:
    bool is_open(CUdeviceptr address) const { return opened_.contains(address); }
    // Once more; `held` counts where it is the first time.
    void open(CUdeviceptr, Held held);
    // What the last close gives back.
    std::optional<Held> closed(CUdeviceptr);
    void forget(int device);

private:
    struct Opened {
        Held held;
        int times = 0;
    };
    std::map<CUdeviceptr, Opened> opened_;
};

// Pools, which the driver tells about, and what was allocated from them.
class HeldPools {
public:
    void add(CUmemoryPool pool, int device) { pools_[pool] = {device, 0}; }
    std::optional<int> device_of(CUmemoryPool) const;
    // tell(pool, counted) for each pool of the device: it may change what is counted for it.
    template <class Tell> void each(int device, Tell tell)
    {
        for (auto &[pool, state] : pools_)
            if (state.device == device) tell(pool, state.bytes);
    }
    void hold(CUdeviceptr address, CUmemoryPool pool, Held held)
    {
        pieces_[address] = {pool, held};
    }
    // It is freed: from which pool, and what it was.
    std::optional<std::pair<CUmemoryPool, Held>> freed(CUdeviceptr);
    bool knows(CUdeviceptr address) const { return pieces_.contains(address); }
    // It is destroyed: what is given back at once. What is allocated from it lives on, and is given
    // back piece by piece.
    Held destroyed(CUmemoryPool);
    void forget(int device);

private:
    std::map<CUmemoryPool, Held> pools_;  // bytes: as the driver told last
    std::map<CUdeviceptr, std::pair<CUmemoryPool, Held>> pieces_;
};

// Freed in a stream's order: the device has it until the event comes.
class LeavingMemory {
public:
    void add(CUevent event, Held held) { leaving_.emplace_back(event, held); }
    // Those of which has_left(event, held) says so are gone.
    template <class HasLeft> void poll(HasLeft has_left)
    {
        std::erase_if(leaving_, [&](const auto &l) { return has_left(l.first, l.second); });
    }
    void forget(int device);

private:
    std::vector<std::pair<CUevent, Held>> leaving_;
};

// Virtual memory: alive as long as a handle or a mapping is. It belongs to no context.
class PhysicalMemory {
public:
    using Handle = CUmemGenericAllocationHandle;
    void made(Handle handle, Held held) { pieces_[handle] = {held, 1}; }
    // What is counted for it; nothing where it is not known.
    std::optional<Held> of(Handle) const;
    // One handle more, or one less: what the last one gives back.
    void retained(Handle);
    std::optional<Held> released(Handle);
    void mapped(CUdeviceptr, uint64_t bytes, Handle);
    // All mappings that begin there end.
    std::vector<Held> unmapped(CUdeviceptr, uint64_t bytes);
    uint64_t bytes_on(int device) const;

private:
    struct Piece {
        Held held;
        int references = 1;
    };
    std::map<Handle, Piece> pieces_;
    std::map<CUdeviceptr, std::pair<uint64_t, Handle>> mappings_;
};

// Graphs' own memory. NVIDIA's driver takes it when an executable graph is launched, and may share
// it among graphs that do not run at the same time: each counts in full from its making on. What
// one had that has gone may be kept for the next, which the driver tells.
class GraphMemory {
public:
    using Needs = std::vector<uint64_t>;  // by device

    // nodes_take_memory: the software GPU's nodes have their memory from their making on, and it
    // tells how much.
    GraphMemory(size_t devices, bool nodes_take_memory)
        : nodes_take_memory_(nodes_take_memory), devices_(devices)
    {}
    bool nodes_take_memory() const { return nodes_take_memory_; }
    // From now on as NVIDIA's driver does it. Tests say this, on a software GPU.
    void launches_take_memory() { nodes_take_memory_ = false; }

    // Some graph has an allocation node: the driver is worth a question.
    void seen() { any_ = true; }
    bool any() const { return any_; }

    Needs none() const { return Needs(devices_.size()); }
    Needs of(CUgraphExec) const;
    void set(CUgraphExec graph, Needs needs) { executables_[graph] = std::move(needs); }
    // It is destroyed: what it had, which the driver may keep.
    Needs ended(CUgraphExec);
    // True once for each executable graph.
    bool is_first_launch(CUgraphExec graph) { return launched_.insert(graph).second; }

    void live_more(int device, uint64_t bytes);
    void live_less(int device, uint64_t bytes);
    // What graphs hold when the driver says `told`.
    uint64_t holds(int device, uint64_t told);
    uint64_t live(int device) const { return devices_[static_cast<size_t>(device)].live; }
    // What is counted for them.
    uint64_t &counted(int device) { return devices_[static_cast<size_t>(device)].counted; }
    void forget(int device);

private:
    struct Device {
        uint64_t counted = 0, live = 0, gone = 0;
    };
    bool nodes_take_memory_, any_ = false;
    std::vector<Device> devices_;
    std::map<CUgraphExec, Needs> executables_;
    std::set<CUgraphExec> launched_;
};

// Contexts by device, the primary ones too, and what comes to the device with the first launch of a
// function in one.
class HeldContexts {
public:
    explicit HeldContexts(size_t devices) : contexts_(devices) {}
    void made(int device, CUcontext context) { on(device).insert(context); }
    void ended(int device, CUcontext context) { on(device).erase(context); }
    // -1: none.
    int device_of(CUcontext) const;
    const std::set<CUcontext> &of(int device) const
    {
        return contexts_[static_cast<size_t>(device)];
    }

    // True once for each function and device.
    bool is_first_launch(CUfunction f, int device) { return launched_.insert({f, device}).second; }
    // Handles may come again, or launches take more: all are first ones again.
    void launch_anew() { launched_.clear(); }

private:
    std::set<CUcontext> &on(int device) { return contexts_[static_cast<size_t>(device)]; }

    std::vector<std::set<CUcontext>> contexts_;
    std::set<std::pair<CUfunction, int>> launched_;
};

}  // namespace rgpu::worker
